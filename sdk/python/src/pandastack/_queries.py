"""SQL over HTTP: how statements are sent, and what they give back. No input or output here."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Mapping, Optional, Tuple, Union, cast

from ._wire import fields_of, list_of
from .exceptions import QueryError

if TYPE_CHECKING:
    from typing import Sequence

    from .exceptions import BadRequestError

# What a transaction takes: a statement, or one with its parameters.
Statement = Union[str, Tuple[str, "Sequence[Any]"]]

# The database that every server has.
MAIN_DATABASE = "pandastack"

# The server's own limits, without a `timeout`.
QUERY_SECONDS = 30.0
TRANSACTION_SECONDS = 60.0
# The server may wake a sleeping database for 60 s before a statement begins.
_WAKE_SECONDS = 70.0


@dataclass(frozen=True)
class QueryColumn:
    """A column of a result. `type` is PostgreSQL's name in capitals, such as `INT4`."""

    name: str
    type: str


@dataclass(frozen=True)
class QueryResult:
    """What a statement gave back. Iterating over it gives the rows as dicts.

    Attributes:
        columns: The columns; empty if the statement has no result.
        rows: The rows as lists, at most 10 000. Types that JSON lacks, such as `NUMERIC`, `UUID`
            and times, are strings.
        rows_affected: How many rows were changed, if the server says so.
        duration_ms: How long it took. None in a transaction.
    """

    columns: List[QueryColumn]
    rows: List[List[Any]]
    rows_affected: Optional[int] = None
    duration_ms: Optional[int] = None

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> QueryResult:
        columns = [fields_of(column) for column in list_of(data.get("columns"))]
        return cls(
            columns=[QueryColumn(str(one.get("name")), str(one.get("type"))) for one in columns],
            rows=list_of(data.get("rows")),
            rows_affected=data.get("rows_affected"),
            duration_ms=data.get("duration_ms"),
        )

    def dicts(self) -> List[Dict[str, Any]]:
        """The rows by the names of their columns. Of columns with one name, the last counts."""
        names = [column.name for column in self.columns]
        return [dict(zip(names, row)) for row in self.rows]

    @property
    def value(self) -> Any:
        """The first column of the first row. None if there is no row."""
        return self.rows[0][0] if self.rows and self.rows[0] else None

    def __iter__(self) -> Iterator[Dict[str, Any]]:
        return iter(self.dicts())

    def __len__(self) -> int:
        return len(self.rows)

    def __bool__(self) -> bool:
        # A result without rows is a result.
        return True


def statement_body(sql: str, params: Optional[Sequence[Any]]) -> Dict[str, Any]:
    """A statement with its parameters, as the server reads it."""
    body: Dict[str, Any] = {"sql": sql}
    if params is not None:
        # A text is a sequence too, and would be sent letter by letter.
        if isinstance(params, (str, bytes)):
            raise TypeError("params must be a list, such as [7] for $1")
        body["params"] = [_parameter(value) for value in params]
    return body


def statement_bodies(statements: Sequence[Statement]) -> List[Dict[str, Any]]:
    return [
        statement_body(one, None) if isinstance(one, str) else statement_body(*one)
        for one in statements
    ]


def with_limits(
    body: Dict[str, Any],
    *,
    database: str,
    timeout: Optional[float] = None,
    max_rows: Optional[int] = None,
) -> Dict[str, Any]:
    body["database"] = database
    if timeout is not None:
        body["timeout_ms"] = max(1, round(timeout * 1000))
    if max_rows is not None:
        body["max_rows"] = max_rows
    return body


def request_seconds(timeout: Optional[float], default: float) -> float:
    """The deadline of a request whose statement has this time limit."""
    return (default if timeout is None else timeout) + _WAKE_SECONDS


def query_error(error: BadRequestError) -> QueryError:
    """What PostgreSQL said, from a refusal of the broker."""
    fields = fields_of(error.body)
    index = fields.get("statement")
    return QueryError(
        error.message,
        status=error.status,
        code=error.code,
        request_id=error.request_id,
        retry_after=error.retry_after,
        body=error.body,
        detail=_text(fields.get("detail")),
        hint=_text(fields.get("hint")),
        where=_text(fields.get("where")),
        statement=index if isinstance(index, int) else None,
    )


def _text(value: object) -> Optional[str]:
    return value if isinstance(value, str) else None


def _parameter(value: object) -> Any:
    """A value as JSON. What JSON does not have is the text that PostgreSQL reads."""
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, (bytes, bytearray)):
        return "\\x" + value.hex()
    if isinstance(value, (list, tuple)):
        return [_parameter(one) for one in cast("Sequence[object]", value)]
    if isinstance(value, dict):
        entries = cast("Mapping[object, object]", value)
        return {str(name): _parameter(one) for name, one in entries.items()}
    return _special(value)


def _special(value: object) -> str:
    import datetime
    import decimal
    import uuid

    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return f"{value.days} days {value.seconds} seconds {value.microseconds} microseconds"
    if isinstance(value, (decimal.Decimal, uuid.UUID)):
        return str(value)
    raise TypeError(f"a parameter of type {type(value).__name__} cannot be sent; give its text")
