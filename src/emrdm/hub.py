"""Weights on the Hugging Face Hub, for those who have ``huggingface_hub`` installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from emrdm.errors import EmrdmError, MissingDependencyError

FILENAME = "model.safetensors"


def pull(repository: str, *, filename: str = FILENAME, revision: str | None = None) -> Path:
    """Path of a downloaded weights file."""
    hub = _hub()
    try:
        return Path(hub.hf_hub_download(repository, filename, revision=revision))
    except Exception as error:  # their tree of errors changes between versions; the reason is what matters
        raise EmrdmError(f"{filename} could not be fetched from {repository}: {_first_line(error)}") from error


def push(path: Path, repository: str, *, filename: str = FILENAME, private: bool = True) -> str:
    """Upload a weights file, making the repository if needed; the address of the commit."""
    hub = _hub()
    try:
        hub.create_repo(repository, private=private, exist_ok=True)
        return str(hub.upload_file(path_or_fileobj=str(path), path_in_repo=filename, repo_id=repository))
    except Exception as error:
        raise EmrdmError(f"{path} could not be sent to {repository}: {_first_line(error)}") from error


def _hub() -> Any:
    try:
        import huggingface_hub
    except ImportError:
        raise MissingDependencyError("huggingface_hub is not installed: pip install 'emrdm[hub]'") from None
    return huggingface_hub


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).split("\n", 1)[0]
