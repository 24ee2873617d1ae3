"""`python -m lockstep.grafana`: write Grafana's dashboards, or check the committed ones."""

import argparse
import sys
from pathlib import Path

from lockstep.grafana.book import FOLDER, book, counts, shared, stale, write
from lockstep.grafana.settings import Settings


def main() -> int:
    """Write, export or check; 1 if the check fails or a folder cannot be written."""
    options = _options()
    default = Settings()
    settings = Settings(
        streamlit_url=(options.streamlit_url or default.streamlit_url).rstrip("/"),
        timezone=options.timezone or default.timezone,
    )
    models = book(settings)
    try:
        if options.check:
            return _check(options.out)
        write(options.out, models)
        if options.export is not None:
            write(options.export, {name: shared(one) for name, one in models.items()})
    except OSError as error:
        print(f"{error.filename} cannot be written: {error.strerror}", file=sys.stderr)
        return 1
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m lockstep.grafana", description=__doc__)
    parser.add_argument("--out", type=Path, default=FOLDER, metavar="DIR", help="write them here")
    parser.add_argument(
        "--check", action="store_true", help="only say whether they are what is generated"
    )
    parser.add_argument(
        "--export", type=Path, metavar="DIR", help="write them for sharing too, with __inputs"
    )
    parser.add_argument("--streamlit-url", metavar="URL", help="where `lockstep dashboard` answers")
    parser.add_argument("--timezone", metavar="NAME", help="browser, utc or an IANA name")
    return parser.parse_args()


def _check(folder: Path) -> int:
    models = book()
    wrong = stale(folder, models)
    told = counts(models)
    for name, (panels, described, with_unit, linked, legacy) in told.items():
        print(
            f"{name}: {panels} panels, {described} with description, {with_unit} with unit,"
            f" {linked} with links, {legacy} of legacy types"
        )
    if wrong:
        print(
            f"not what is generated: {', '.join(wrong)}; run python -m lockstep.grafana",
            file=sys.stderr,
        )
    whole = all(set(one[:4]) == {one[0]} and one[4] == 0 for one in told.values())
    return 0 if whole and not wrong else 1


if __name__ == "__main__":
    sys.exit(main())
