"""Treadle: agents that survive. Durable, fast, small.

Names are loaded when first used, so that `import treadle` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treadle.agent.agent import Agent
    from treadle.agent.context_use import ContextUse
    from treadle.agent.conversation import Conversation
    from treadle.agent.inbox import Receipt
    from treadle.agent.result import RunResult
    from treadle.agent.run import Run
    from treadle.compaction.policy import Compaction
    from treadle.control import AskApproval, Finish, Handoff, Interrupt, Next
    from treadle.errors import (
        AuthenticationFailed,
        BadReply,
        BranchConflict,
        CompactionFailed,
        ConfigError,
        ContentFiltered,
        ContextOverflow,
        ContextTooSmall,
        ConversationBusy,
        ConversationFinalized,
        ConversationNotFound,
        CorruptJournal,
        DeadEnd,
        DefinitionChanged,
        DuplicateTool,
        GraphInvalid,
        IncompleteReply,
        InvalidId,
        InvalidInput,
        InvalidTool,
        LeaseLost,
        LimitReached,
        MCPFailed,
        MissingExtra,
        MissingKey,
        ModelError,
        ModelFilesError,
        ModelTimeout,
        NewerJournal,
        NoModel,
        NotStorable,
        OutputInvalid,
        Overloaded,
        PlanInvalid,
        PluginFailed,
        RateLimited,
        RevisionConflict,
        RunError,
        RunFailed,
        RunNotFound,
        RunSuperseded,
        SkillInvalid,
        StateInvalid,
        StoreError,
        StoreUnavailable,
        ToolAbort,
        ToolAborted,
        ToolError,
        TreadleError,
        UnknownModel,
        UnknownType,
    )
    from treadle.events import (
        AgentEntered,
        AgentLeft,
        AnswerStored,
        ApprovalDecided,
        ApprovalRequested,
        CompactionStarted,
        ContextCompacted,
        DelegateFinished,
        DelegateStarted,
        Event,
        HandedOff,
        ModelFinished,
        ModelRetried,
        ModelStarted,
        OutputDelta,
        PlanChanged,
        ReasoningDelta,
        RunFinished,
        RunPaused,
        RunStarted,
        SteerApplied,
        SteerCarriedOver,
        SteerDiscarded,
        TextDelta,
        ToolFinished,
        ToolProgress,
        ToolRequested,
        ToolStarted,
    )
    from treadle.limits import Limits
    from treadle.messages import (
        Artefact,
        Audio,
        Citation,
        File,
        Hosted,
        Image,
        Message,
        Reasoning,
        Text,
        ToolCall,
        ToolResult,
    )
    from treadle.models.retry import Retry
    from treadle.plan import Plan, PlanStep
    from treadle.ports.approval import Approve, Deny, Edit, PendingCall
    from treadle.ports.context import RunContext
    from treadle.ports.middleware import Middleware
    from treadle.ports.model import ModelReply, ModelRequest, ModelSettings
    from treadle.ports.observer import Observer
    from treadle.prompts.builder import Prompt
    from treadle.skills.loader import load_skill, load_skills
    from treadle.skills.skill import Skill
    from treadle.state.scoped import Scope, ScopedState, State
    from treadle.stores.file import FileStore
    from treadle.stores.memory import MemoryStore
    from treadle.stores.open import open_store
    from treadle.stores.sqlite import SQLiteStore
    from treadle.tools.parameters import Parameter, parameters_schema
    from treadle.tools.tool import Tool, tool
    from treadle.usage import Price, Usage
    from treadle.values import register
    from treadle.workflows.delegate import delegates
    from treadle.workflows.graph.build import Graph
    from treadle.workflows.graph.context import GraphView, NodeContext
    from treadle.workflows.graph.edges import (
        END,
        ON_FAILURE,
        ON_SUCCESS,
        ON_TOOL_CALL,
        START,
        Condition,
    )
    from treadle.workflows.graph.result import GraphResult, NodeStep
    from treadle.workflows.plan_execute import PlanExecute
    from treadle.workflows.plan_result import PlanResult
    from treadle.workflows.swarm import Swarm
    from treadle.workflows.swarm_result import SwarmResult, SwarmStep

__version__ = "0.1.0"

__all__ = [
    "END",
    "ON_FAILURE",
    "ON_SUCCESS",
    "ON_TOOL_CALL",
    "START",
    "Agent",
    "AgentEntered",
    "AgentLeft",
    "AnswerStored",
    "ApprovalDecided",
    "ApprovalRequested",
    "Approve",
    "Artefact",
    "AskApproval",
    "Audio",
    "AuthenticationFailed",
    "BadReply",
    "BranchConflict",
    "Citation",
    "Compaction",
    "CompactionFailed",
    "CompactionStarted",
    "Condition",
    "ConfigError",
    "ContentFiltered",
    "ContextCompacted",
    "ContextOverflow",
    "ContextTooSmall",
    "ContextUse",
    "Conversation",
    "ConversationBusy",
    "ConversationFinalized",
    "ConversationNotFound",
    "CorruptJournal",
    "DeadEnd",
    "DefinitionChanged",
    "DelegateFinished",
    "DelegateStarted",
    "Deny",
    "DuplicateTool",
    "Edit",
    "Event",
    "File",
    "FileStore",
    "Finish",
    "Graph",
    "GraphInvalid",
    "GraphResult",
    "GraphView",
    "HandedOff",
    "Handoff",
    "Hosted",
    "Image",
    "IncompleteReply",
    "Interrupt",
    "InvalidId",
    "InvalidInput",
    "InvalidTool",
    "LeaseLost",
    "LimitReached",
    "Limits",
    "MCPFailed",
    "MemoryStore",
    "Message",
    "Middleware",
    "MissingExtra",
    "MissingKey",
    "ModelError",
    "ModelFilesError",
    "ModelFinished",
    "ModelReply",
    "ModelRequest",
    "ModelRetried",
    "ModelSettings",
    "ModelStarted",
    "ModelTimeout",
    "NewerJournal",
    "Next",
    "NoModel",
    "NodeContext",
    "NodeStep",
    "NotStorable",
    "Observer",
    "OutputDelta",
    "OutputInvalid",
    "Overloaded",
    "Parameter",
    "PendingCall",
    "Plan",
    "PlanChanged",
    "PlanExecute",
    "PlanInvalid",
    "PlanResult",
    "PlanStep",
    "PluginFailed",
    "Price",
    "Prompt",
    "RateLimited",
    "Reasoning",
    "ReasoningDelta",
    "Receipt",
    "Retry",
    "RevisionConflict",
    "Run",
    "RunContext",
    "RunError",
    "RunFailed",
    "RunFinished",
    "RunNotFound",
    "RunPaused",
    "RunResult",
    "RunStarted",
    "RunSuperseded",
    "SQLiteStore",
    "Scope",
    "ScopedState",
    "Skill",
    "SkillInvalid",
    "State",
    "StateInvalid",
    "SteerApplied",
    "SteerCarriedOver",
    "SteerDiscarded",
    "StoreError",
    "StoreUnavailable",
    "Swarm",
    "SwarmResult",
    "SwarmStep",
    "Text",
    "TextDelta",
    "Tool",
    "ToolAbort",
    "ToolAborted",
    "ToolCall",
    "ToolError",
    "ToolFinished",
    "ToolProgress",
    "ToolRequested",
    "ToolResult",
    "ToolStarted",
    "TreadleError",
    "UnknownModel",
    "UnknownType",
    "Usage",
    "__version__",
    "delegates",
    "load_skill",
    "load_skills",
    "open_store",
    "parameters_schema",
    "register",
    "tool",
]

_ROOMS = {
    "treadle.agent.agent": "Agent",
    "treadle.agent.conversation": "Conversation",
    "treadle.agent.inbox": "Receipt",
    "treadle.agent.context_use": "ContextUse",
    "treadle.agent.result": "RunResult",
    "treadle.agent.run": "Run",
    "treadle.compaction.policy": "Compaction",
    "treadle.control": "AskApproval Finish Handoff Interrupt Next",
    "treadle.errors": (
        "AuthenticationFailed BadReply BranchConflict CompactionFailed ConfigError "
        "ContentFiltered ContextOverflow ContextTooSmall "
        "ConversationBusy ConversationFinalized ConversationNotFound CorruptJournal "
        "DeadEnd DefinitionChanged DuplicateTool GraphInvalid IncompleteReply InvalidId "
        "InvalidInput InvalidTool LeaseLost LimitReached MCPFailed MissingExtra MissingKey "
        "ModelError ModelFilesError ModelTimeout NewerJournal NoModel NotStorable "
        "OutputInvalid Overloaded PlanInvalid PluginFailed RateLimited RevisionConflict "
        "RunError RunFailed RunNotFound RunSuperseded SkillInvalid StateInvalid StoreError "
        "StoreUnavailable ToolAbort ToolAborted ToolError TreadleError UnknownModel "
        "UnknownType"
    ),
    "treadle.events": (
        "AgentEntered AgentLeft AnswerStored ApprovalDecided ApprovalRequested "
        "CompactionStarted ContextCompacted "
        "DelegateFinished DelegateStarted Event HandedOff "
        "ModelFinished ModelRetried "
        "ModelStarted OutputDelta PlanChanged ReasoningDelta RunFinished RunPaused RunStarted "
        "SteerApplied SteerCarriedOver SteerDiscarded TextDelta ToolFinished ToolProgress "
        "ToolRequested ToolStarted"
    ),
    "treadle.limits": "Limits",
    "treadle.messages": (
        "Artefact Audio Citation File Hosted Image Message Reasoning Text ToolCall ToolResult"
    ),
    "treadle.models.retry": "Retry",
    "treadle.plan": "Plan PlanStep",
    "treadle.ports.approval": "Approve Deny Edit PendingCall",
    "treadle.ports.context": "RunContext",
    "treadle.ports.middleware": "Middleware",
    "treadle.ports.model": "ModelReply ModelRequest ModelSettings",
    "treadle.ports.observer": "Observer",
    "treadle.prompts.builder": "Prompt",
    "treadle.skills.loader": "load_skill load_skills",
    "treadle.skills.skill": "Skill",
    "treadle.state.scoped": "Scope ScopedState State",
    "treadle.stores.file": "FileStore",
    "treadle.stores.memory": "MemoryStore",
    "treadle.stores.open": "open_store",
    "treadle.stores.sqlite": "SQLiteStore",
    "treadle.tools.parameters": "Parameter parameters_schema",
    "treadle.tools.tool": "Tool tool",
    "treadle.usage": "Price Usage",
    "treadle.values": "register",
    "treadle.workflows.graph.build": "Graph",
    "treadle.workflows.graph.context": "GraphView NodeContext",
    "treadle.workflows.graph.edges": "END ON_FAILURE ON_SUCCESS ON_TOOL_CALL START Condition",
    "treadle.workflows.graph.result": "GraphResult NodeStep",
    "treadle.workflows.plan_execute": "PlanExecute",
    "treadle.workflows.plan_result": "PlanResult",
    "treadle.workflows.swarm": "Swarm",
    "treadle.workflows.swarm_result": "SwarmResult SwarmStep",
    "treadle.workflows.delegate": "delegates",
}
_HOMES = {name: room for room, names in _ROOMS.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """Load a public name from its room."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'treadle' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
