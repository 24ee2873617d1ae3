"""What the analyzer does about a finding: reports every Alertmanager, and hears from it."""
