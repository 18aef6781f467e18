"""The public names are a contract: one that appears or goes is a decision, not an accident."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

import treadle

PUBLIC = [
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
    "END",
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
    "ON_FAILURE",
    "ON_SUCCESS",
    "ON_TOOL_CALL",
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
    "START",
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


def test_the_public_names_are_these() -> None:
    """Change this list together with the docs and the changelog."""
    assert sorted(treadle.__all__) == PUBLIC


def test_type_checkers_see_what_is_loaded() -> None:
    """The imports that only a type checker reads name the same objects as the lazy loading."""
    tree = ast.parse(Path(treadle.__file__).read_text(encoding="utf-8"))
    seen = {
        name.name: node.module
        for guard in tree.body
        if isinstance(guard, ast.If)
        for node in guard.body
        if isinstance(node, ast.ImportFrom) and node.module
        for name in node.names
    }

    assert sorted([*seen, "__version__"]) == PUBLIC
    for name, room in seen.items():
        assert getattr(treadle, name) is getattr(import_module(room), name)


def test_an_unknown_name_is_an_attribute_error() -> None:
    """Lazy loading hides no spelling mistake."""
    assert not hasattr(treadle, "Agnet")
