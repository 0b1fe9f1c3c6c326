"""The secret of the host."""

from __future__ import annotations

import hmac
import os
import stat
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeact_kernel.errors import ConfigError
from codeact_kernel.signing import FILE, Signer, data_dir, host_signer


def test_it_is_made_once_and_nobody_else_can_read_it(tmp_path):
    before = os.umask(0o022)
    first = host_signer(tmp_path / "data")
    os.umask(before)
    file = tmp_path / "data" / FILE
    assert (stat.S_IMODE(file.stat().st_mode), file.stat().st_size) == (0o600, 32)
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    again = host_signer(tmp_path / "data", make=False)
    assert again.is_right(b"text", first.sign(b"text"))
    assert again.name == first.name


def test_processes_that_begin_at_once_get_the_same_one(tmp_path):
    with ThreadPoolExecutor(8) as threads:
        names = {signer.name for signer in threads.map(lambda _: host_signer(tmp_path / "d"), range(16))}
    assert len(names) == 1


def test_a_signature_is_right_for_these_bytes_and_this_key_only():
    one, other = Signer(b"1" * 32), Signer(b"2" * 32)
    signature = one.sign(b"text")
    assert len(signature) == 64
    assert one.is_right(b"text", signature)
    assert not one.is_right(b"texts", signature)
    assert not other.is_right(b"text", signature)
    assert not one.is_right(b"text", "é\ud800")
    assert repr(one) == f"Signer({one.name})"


@given(st.binary(max_size=100), st.binary(max_size=300))
def test_a_signature_is_the_librarys_hmac(secret, data):
    assert Signer(secret).sign(data) == hmac.new(secret, data, "sha256").hexdigest()


@pytest.mark.parametrize("spoil", ["others", "short", "link"])
def test_a_key_that_is_none_is_said_and_not_used(tmp_path, spoil, monkeypatch):
    host_signer(tmp_path)
    file = tmp_path / FILE
    match spoil:
        case "others":
            file.chmod(0o644)
        case "short":
            file.write_bytes(b"x")
        case "link":
            file.rename(tmp_path / "real")
            file.symlink_to(tmp_path / "real")
    with pytest.raises(ConfigError, match=r"others can read|is no key|cannot be kept"):
        host_signer(tmp_path)


def test_without_a_key_there_is_nothing_to_check_with(tmp_path):
    with pytest.raises(ConfigError, match="there is no key"):
        host_signer(tmp_path, make=False)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="name another one in CODEACT_DATA_DIR"):
        host_signer(tmp_path / "file" / "x")


def test_the_folder_is_the_platform_s_unless_a_variable_names_one(tmp_path):
    assert data_dir({"CODEACT_DATA_DIR": str(tmp_path)}) == tmp_path
    assert data_dir({}).name == "codeact-kernel"
