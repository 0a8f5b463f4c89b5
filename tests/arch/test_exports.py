"""The public names, and what importing them costs. A new name is added here in the same change, on purpose."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

MOST_NAMES = 40

PUBLIC = """
Agent AgentEvent AgentHandle AgentResult AgentRuntime AgentStatus AgentStream Limits Status ToolContext ToolUse tool
durable http_tool mcp_tool NotDone Outcome Room
Approval
Cancelled Conflict Delivery ExecutionFailed InternalError InvalidInput LeaseLost LimitExceeded NotFound PerdureError
PermanentError RetryLater Retryable StoreFailed StoreFull StoreInUse Terminal Unauthorized Unreachable UserError
__version__
""".split()

HEAVY = (
    "anthropic fastapi genai_prices markdown_it mcp openai psycopg pydantic_ai pypdf reportlab rich sqlalchemy typer "
    "uvicorn"
).split()
"""Packages that `import perdure` must not load: it is on the way of every script and every worker."""


def test_the_export_list_is_the_one_written_here() -> None:
    import perdure

    assert sorted(perdure.__all__) == sorted(PUBLIC)
    assert len(PUBLIC) <= MOST_NAMES


def test_every_export_is_there_and_documented() -> None:
    import perdure

    for name in perdure.__all__:
        value = getattr(perdure, name)
        assert name.startswith("__") or value.__doc__ or not callable(value), f"perdure.{name} has no docstring"


def test_users_type_checkers_believe_the_types() -> None:
    import perdure

    assert Path(perdure.__file__).with_name("py.typed").is_file()


def test_importing_perdure_loads_nothing_heavy() -> None:
    program = f"import sys, perdure; print(*[name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout.split() == []
