"""Every error this package raises.

TreadleError                     .result: what a run had when it failed, or None
├── ConfigError                  the caller built something that cannot work
│   ├── NoModel                  an agent without a model was run
│   ├── UnknownModel             a "provider:model" string that names nothing installed
│   ├── MissingKey               a provider needs a key and none was given
│   ├── MissingExtra             an optional package is not installed
│   ├── DuplicateTool            two tools of one name
│   ├── InvalidTool              a function or schema that cannot become a tool
│   ├── PluginFailed             a plugin cannot be loaded; none of its group is
│   ├── SkillInvalid             a folder that is no skill; .problems says why
│   ├── GraphInvalid             a graph that cannot run; .problems says why
│   ├── InvalidId                a conversation or run ID with forbidden characters
│   └── InvalidInput             nothing to say, or arguments of a run that contradict
├── ModelError                   a model request failed
│   ├── RateLimited              retryable, has .retry_after
│   ├── Overloaded               retryable: the server is busy, down or unreachable
│   ├── ModelTimeout             retryable: no answer in time
│   ├── IncompleteReply          the reply was cut off; .retryable says whether again may help
│   ├── BadReply                 the server answered with something that is not its protocol
│   ├── AuthenticationFailed     the key was refused
│   ├── ContextOverflow          the request is larger than the model's window
│   │   └── ContextTooSmall      nothing more can leave the view, and still it does not fit
│   └── ContentFiltered          a refusal or a filter, never an answer
├── RunError                     a run could not end well
│   ├── DeadEnd                  no edge of a graph leads on
│   ├── RunFailed                anything unforeseen inside the run
│   ├── LimitReached             a limit with on_limit="error"
│   ├── ToolAborted              a tool raised ToolAbort, or failed with on_error="fail"
│   ├── OutputInvalid            the model never produced a valid typed output
│   ├── BranchConflict           parallel branches left different values in one state key
│   └── StateInvalid             a value of typed state is missing, or not of its type
├── StoreError
│   ├── ConversationNotFound
│   ├── RunNotFound
│   ├── RevisionConflict         somebody appended in between
│   ├── ConversationBusy         another run owns the conversation
│   ├── ConversationFinalized    the run has answered; start another
│   ├── RunSuperseded            another run began after it; it cannot go on
│   ├── DefinitionChanged        the agent is not what it was when the run began
│   ├── LeaseLost                the run no longer owns the conversation
│   ├── NotStorable              a value that cannot be stored without loss
│   ├── UnknownType              a stored value whose type is not registered here
│   ├── StoreUnavailable
│   ├── NewerJournal             written by a newer version of this package
│   └── CorruptJournal
├── CompactionFailed             what a model wrote in place of old turns is of no use
├── MCPFailed                    an MCP server cannot be reached, has gone, or refuses
├── PlanInvalid                  a plan that cannot be carried out; has .problems
├── ModelFilesError              the weights of a local model are missing or wrong
├── ToolError                    raised by tools: text for the model
└── ToolAbort                    raised by tools: stops the run
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any


class TreadleError(Exception):
    """Base of all errors raised by this package.

    `result` is the partial `RunResult` when the error ended a run, else None.
    """

    result: Any = None


class ConfigError(TreadleError):
    """The caller built something that cannot work."""


class NoModel(ConfigError):
    """An agent without a model was run."""


class UnknownModel(ConfigError):
    """A model string names no installed provider or no model of it."""


class MissingKey(ConfigError):
    """A provider needs a key and none was given."""


class MissingExtra(ConfigError):
    """An optional package is needed and not installed."""


class DuplicateTool(ConfigError):
    """Two tools of one agent have the same name."""


class InvalidTool(ConfigError):
    """A function or schema cannot become a tool."""


class PluginFailed(ConfigError):
    """A plugin cannot be loaded, or its server not be reached; none of its group is loaded."""


class SkillInvalid(ConfigError):
    """A folder is no skill; `problems` has each with its file and line."""

    def __init__(self, message: str, *, problems: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.problems = tuple(problems) or (message,)


class GraphInvalid(ConfigError):
    """A graph cannot run; `problems` says all that is wrong with it, in words."""

    def __init__(self, message: str, *, problems: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.problems = tuple(problems) or (message,)


class InvalidId(ConfigError):
    """A conversation or run ID is empty, too long or has forbidden characters."""


class InvalidInput(ConfigError):
    """A run was started with nothing to say, or with arguments that contradict."""


class ModelError(TreadleError):
    """A request to a model failed.

    `retryable` says whether the same request may work a moment later; `retry_after`
    is the wait the provider asked for, in seconds; `partial` is the text that had
    already arrived; `usage` is what was used all the same (a `Usage`), where that is known.
    """

    default_retryable = False
    usage: Any = None

    def __init__(  # size: one exception, every fact about a failed request is a field
        self,
        message: str,
        *,
        provider: str = "",
        model: str = "",
        status: int | None = None,
        request_id: str | None = None,
        code: str | None = None,
        retryable: bool | None = None,
        retry_after: float | None = None,
        partial: str = "",
    ) -> None:
        super().__init__(message)
        self.provider = provider
        self.model = model
        self.status = status
        self.request_id = request_id
        self.code = code
        self.retryable = self.default_retryable if retryable is None else retryable
        self.retry_after = retry_after
        self.partial = partial


class RateLimited(ModelError):
    """The provider limits this caller's rate."""

    default_retryable = True


class Overloaded(ModelError):
    """The server is busy, failing or cannot be reached."""

    default_retryable = True


class ModelTimeout(ModelError):
    """The server did not answer in time."""

    default_retryable = True


class IncompleteReply(ModelError):
    """The reply was cut off: by the network (retryable) or by the output limit (not)."""


class BadReply(ModelError):
    """The server answered with something that is not its protocol."""


class AuthenticationFailed(ModelError):
    """The provider refused the credentials."""


class ContextOverflow(ModelError):
    """The request is larger than the model's context window."""


class ContextTooSmall(ContextOverflow):
    """The request cannot be made to fit the model's context window; it was not sent."""


class ContentFiltered(ModelError):
    """The provider refused or filtered the content; `partial` has the refusal's text."""


class RunError(TreadleError):
    """A run could not end well; `.result` holds what there is."""


class DeadEnd(RunError):
    """A node of a graph succeeded, and no edge leads on from it."""


class RunFailed(RunError):
    """Something unforeseen failed inside the run; the cause is chained."""


class LimitReached(RunError):
    """A limit was reached and `on_limit="error"` was asked for."""


class ToolAborted(RunError):
    """A tool stopped the run."""


class OutputInvalid(RunError):
    """The model never produced an output of the asked type."""


class BranchConflict(RunError):
    """Parallel branches left different values in one state key; none of them was written.

    `key` is the whole key, `branches` the names of two that differ, and `values` what each of them
    left there, or in the dict that stands there: None where it was deleted.
    """

    def __init__(
        self, message: str, *, key: str, branches: tuple[str, str], values: tuple[Any, Any]
    ) -> None:
        super().__init__(message)
        self.key = key
        self.branches = branches
        self.values = values


class StateInvalid(RunError):
    """A value of typed state is missing, or is not of its type; `key` says which."""

    def __init__(self, message: str, *, key: str) -> None:
        super().__init__(message)
        self.key = key


class StoreError(TreadleError):
    """A conversation store refused or failed."""


class ConversationNotFound(StoreError):
    """No conversation of this ID is in the store."""


class RunNotFound(StoreError):
    """No run of this ID is in the store."""


class RevisionConflict(StoreError):
    """The conversation has a newer revision than the caller expected; nothing was written."""


class ConversationBusy(StoreError):
    """Another run owns the conversation.

    `lease` is its lease and `seconds_left` how long that lives unless it is renewed.
    """

    lease: Any = None
    seconds_left: float = 0.0


class ConversationFinalized(StoreError):
    """The run has answered, so it takes no more messages."""


class RunSuperseded(StoreError):
    """Another run has begun in the conversation since; its open calls were closed."""


class DefinitionChanged(StoreError):
    """The agent that is to resume a run is not what it was; `changes` says what differs."""

    changes: tuple[str, ...] = ()


class LeaseLost(StoreError):
    """The run no longer owns the conversation; nothing was written."""


class NotStorable(StoreError):
    """A value cannot be stored without loss; the message names where and its type."""


class UnknownType(StoreError):
    """A stored value's type is not registered in this process.

    `type_name` is the stored name, `path` where it stands, `raw` the stored form.
    """

    def __init__(self, message: str, *, type_name: str, path: str, raw: object) -> None:
        super().__init__(message)
        self.type_name = type_name
        self.path = path
        self.raw = raw


class StoreUnavailable(StoreError):
    """The store could not be reached."""


class NewerJournal(StoreError):
    """The journal was written by a newer version of this package."""


class CorruptJournal(StoreError):
    """A stored entry cannot be read."""


class PlanInvalid(TreadleError):
    """A plan cannot be, for instance because its steps wait for each other.

    `problems` has each thing that is wrong with it, as a sentence.
    """

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__(" ".join(problems))
        self.problems = tuple(problems)


class CompactionFailed(TreadleError):
    """What a model wrote in place of old turns is of no use; the history stays as it was."""


class ModelFilesError(TreadleError):
    """The weights of a local model are missing, broken or could not be downloaded."""


class MCPFailed(TreadleError):
    """An MCP server cannot be started or reached, has gone, or refuses a request.

    `server` is its name; `code` the number of the refusal, where it refused; `exit_code` and
    `stderr` (its last lines) are known of a process that ended. `gone` says that the connection
    ended with it, so that nobody knows whether what was asked took effect.
    """

    def __init__(
        self,
        message: str,
        *,
        server: str = "",
        code: int | None = None,
        exit_code: int | None = None,
        stderr: str = "",
        gone: bool = False,
    ) -> None:
        super().__init__(message)
        self.server = server
        self.code = code
        self.exit_code = exit_code
        self.stderr = stderr
        self.gone = gone


class ToolError(TreadleError):
    """Raised by a tool: its text goes to the model as the call's error result."""


class ToolAbort(TreadleError):
    """Raised by a tool: stops the run with `ToolAborted`."""
