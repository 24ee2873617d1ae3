"""Removes from an environment what nothing of ours runs: `python trim.py ENVIRONMENT [MORE...]`.

MORE are patterns of what one image does without. Tests, headers, stubs and debuggers' symbols of
every package, and parts of single ones, each with its reason. It runs where an image's dependencies
are installed, before they are copied into it.
"""

import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

FOLDERS = ("**/tests", "**/include", "**/__pycache__")
"""Of packages; never of what a package calls `testing`, which others import."""
FILES = ("**/*.pyi", "**/*.pyx", "**/*.pxd", "**/*.pxi", "**/*.a", "**/*.h", "**/*.hpp", "**/*.map")
PARTS = (
    "torch/test",  # compiled tests
    "torch/bin/protoc*",  # beside it stands torch_shm_manager, which torch needs
    "torch/bin/*[tT]est*",
    "torch/lib/*_test.so",
    "torch/share",  # of cmake
    "torch/utils/model_dump",  # pages about saved models
    # Arrow's servers, other formats than Parquet, and S3: archives are read and written as files.
    "pyarrow/*s3*",
    "pyarrow/*flight*",
    "pyarrow/_substrait*",  # its library stays: all others are linked to it
    "pyarrow/_pyarrow_cpp_tests*",
    "pyarrow/*gandiva*",
    "pyarrow/*orc*",
    "pyarrow/src",
    # Of three copies of one library that to which others are linked stays: libarrow_python.so.2600.
    "pyarrow/libarrow_python*.so",
    "pyarrow/libarrow_python*.so*.*.*.*",
    "matplotlib/mpl-data/sample_data",
    "matplotlib/mpl-data/fonts/afm",  # of PostScript and PDF; charts are SVG
    "matplotlib/mpl-data/fonts/pdfcorefonts",
    "matplotlib/mpl-data/fonts/ttf/STIX*",  # of formulas; DejaVu stays
    "matplotlib/backends/web_backend",
    "plotly/labextension",  # of JupyterLab
    "plotly/package_data/plotly.min.js",  # Streamlit brings its own
    "plotly/package_data/datasets",
    "plotly/package_data/widgetbundle.js",  # of Jupyter, like this:
    "pydeck/nbextension",
    "streamlit/testing",
    "streamlit/.agents",  # advice to who writes pages
    "altair/vegalite",  # of Streamlit's own charts; ours are Plotly's
    # Matplotlib asks for names of glyphs (agl) alone, where it writes no PostScript and no PDF.
    "fontTools/*Lib",
    "fontTools/*2*",
    "fontTools/pens",
    "fontTools/subset",
    "fontTools/misc/*.so",
    "fontTools/misc/*.c",
    "PIL/_avif*",  # Pillow does without where it is not there
    "pillow.libs/libavif*",
    "grpc/_cython/_credentials",  # certificates: the kubelet's socket has none
)

BESIDE = ("share/jupyter", "etc/jupyter")
"""Of the environment: what packages bring for notebooks."""


def wanted_gone(environment: Path, more: Sequence[str]) -> Iterator[Path]:
    """What is there of it."""
    [packages] = environment.glob("lib/python3.*/site-packages")
    for pattern in FOLDERS:
        yield from (path for path in packages.glob(pattern) if path.is_dir())
    for pattern in (*FILES, *PARTS, *more):
        yield from packages.glob(pattern)
    yield from (environment / name for name in BESIDE if (environment / name).exists())


def trim(environment: Path, more: Sequence[str]) -> int:
    """Remove it; how many bytes that were."""
    before = size(environment)
    for path in list(wanted_gone(environment, more)):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    libraries = environment.glob("lib/**/*.so*")
    strip([path for path in libraries if path.is_file() and not path.is_symlink()])
    return before - size(environment)


def strip(libraries: list[Path]) -> None:
    """Take the symbols for debuggers away, a fifth of all libraries; one that refuses stays.

    Not those of `<package>.libs`: auditwheel has moved their parts, and they would not load.
    """
    program = shutil.which("strip")
    for path in libraries if program else ():
        if not path.parent.name.endswith(".libs"):
            command = [str(program), "--strip-unneeded", path]
            subprocess.run(command, check=False, capture_output=True)


def size(folder: Path) -> int:
    """Bytes of its files."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir())


if __name__ == "__main__":
    where = Path(sys.argv[1])
    print(f"{trim(where, sys.argv[2:]) / 1e6:.0f} MB removed, {size(where) / 1e6:.0f} MB left")
