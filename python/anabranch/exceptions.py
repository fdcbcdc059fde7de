"""The exceptions of anabranch, one class for each kind of error.

All of them are an :class:`AnabranchError`:

>>> import anabranch
>>> try:
...     anabranch.Scenario([anabranch.Path("10 Mbit/s", "20 parsec")])
... except anabranch.ScenarioError as error:
...     print(error.message)
...     print(error.help)
`parsec` is not a unit of time
write for example `20 ms`; the units are ns, us, ms, s, min and h
"""

from __future__ import annotations

__all__ = [
    "AnabranchError",
    "ArgumentError",
    "CaptureError",
    "NotFoundError",
    "RunError",
    "ScenarioError",
    "SchedulerError",
    "SchedulerWarning",
    "SweepError",
]


class AnabranchError(Exception):
    """The base class of all errors of this package.

    >>> issubclass(SweepError, AnabranchError)
    True
    """


class ArgumentError(AnabranchError, ValueError):
    """An argument of a function is not valid.

    >>> import anabranch
    >>> try:
    ...     anabranch.compare("wifi-lte", jobs=-1)
    ... except anabranch.ArgumentError as error:
    ...     print(error)
    -1 is no number of threads
    """


class NotFoundError(AnabranchError, KeyError, IndexError):
    """A result has no row, column, run or point of that name or number.

    >>> import anabranch
    >>> try:
    ...     anabranch.Plan("wifi-lte", vary={"path.lte.rate": ["5 Mbit/s"]}).point(1)
    ... except anabranch.NotFoundError as error:
    ...     print(error)
    there is no point 1
    """

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class SchedulerWarning(UserWarning):
    """Decisions of a scheduler in Python were refused, and counted as waiting.

    >>> print(SchedulerWarning("Mine", 2, "there is no subflow 7"))
    2 decisions of the scheduler `Mine` were refused, and counted as waiting; the first, because there is no subflow 7
    """

    def __init__(self, scheduler: str, count: int, why: str) -> None:
        super().__init__(scheduler, count, why)
        self.scheduler: str = scheduler
        """The name of the scheduler."""
        self.count: int = count
        """The number of such decisions."""
        self.why: str = why
        """Why the first one was refused."""

    def __str__(self) -> str:
        were = "decision of the scheduler `{}` was" if self.count == 1 else "decisions of the scheduler `{}` were"
        said = f"{self.count} {were.format(self.scheduler)} refused, and counted as waiting"
        return f"{said}; the first, because {self.why}"


class ScenarioError(AnabranchError, ValueError):
    """A scenario or a plan is not valid.

    ``str(error)`` shows the line and marks the place, as the command does.
    """

    message: str
    """The problem, in a sentence."""
    file: str | None
    """The file; for a scenario from Python the part of it, such as ``scenario`` or ``setting``."""
    line: int | None
    """The line, from 1."""
    column: int | None
    """The column in characters, from 1."""
    help: str | None
    """A valid alternative."""

    def __init__(
        self,
        text: str,
        message: str | None = None,
        file: str | None = None,
        line: int | None = None,
        column: int | None = None,
        help: str | None = None,  # noqa: A002
    ) -> None:
        super().__init__(text, message, file, line, column, help)
        self.message = text if message is None else message
        self.file = file
        self.line = line
        self.column = column
        self.help = help

    def __str__(self) -> str:
        return str(self.args[0])


class RunError(AnabranchError, RuntimeError):
    """A simulation failed.

    >>> import anabranch
    >>> try:
    ...     anabranch.Recording("/nowhere")
    ... except anabranch.RunError as error:
    ...     print(error)
    /nowhere is no recording: [Errno 2] No such file or directory: '/nowhere/run.json'
    """


class CaptureError(AnabranchError, ValueError):
    """A capture cannot be read, or has too little for a scenario.

    >>> import anabranch
    >>> try:
    ...     anabranch.inspect("/nowhere.pcap")
    ... except anabranch.CaptureError as error:
    ...     print(error)
    cannot read the capture /nowhere.pcap: No such file or directory (os error 2); give a file of `tcpdump -w`
    """

    file: str | None
    """The file."""
    help: str | None
    """The correction."""

    def __init__(self, text: str, file: str | None = None, help: str | None = None) -> None:  # noqa: A002
        super().__init__(text, file, help)
        self.file = file
        self.help = help

    def __str__(self) -> str:
        return str(self.args[0])


class SchedulerError(AnabranchError, TypeError):
    """A scheduler in Python cannot be used, or its answer is no decision.

    >>> import anabranch
    >>> class Late(anabranch.Scheduler):
    ...     def decide(self, view):
    ...         return "later"
    >>> try:
    ...     anabranch.compare("wifi-lte", schedulers=["tcp", Late], runs=1)
    ... except anabranch.SchedulerError as error:
    ...     print(error)
    `decide` returned str; return Assign, Recall or Wait
    """


class SweepError(AnabranchError, RuntimeError):
    """The directory of a sweep cannot be used.

    >>> import anabranch
    >>> try:
    ...     anabranch.sweep("wifi-lte", vary={"path.lte.rate": ["5 Mbit/s"]}, runs=1, output="nothing://there")
    ... except anabranch.SweepError as error:
    ...     print(error)
    cannot use nothing://there: Protocol not known: nothing
    """
