"""The version, from the installed distribution."""

from importlib.metadata import PackageNotFoundError, version


def _installed() -> str:
    try:
        return version("perdure")
    except PackageNotFoundError:  # a source tree that was never installed
        return "0+source"


VERSION = _installed()
