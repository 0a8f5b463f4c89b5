"""The version, from the installed distribution."""

from importlib.metadata import PackageNotFoundError, version

try:
    VERSION = version("perdure")
except PackageNotFoundError:  # a source tree that was never installed
    VERSION = "0+source"
