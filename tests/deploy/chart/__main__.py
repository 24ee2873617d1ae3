"""`python -m tests.deploy.chart`: writes the chart's copies and kustomize's files anew."""

from tests.deploy.chart.generated import write

if __name__ == "__main__":
    write()
