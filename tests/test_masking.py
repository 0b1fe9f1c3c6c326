"""Known secrets are found in every form in which they are written, wherever a text was cut."""

from __future__ import annotations

import base64
import itertools
import json
from dataclasses import dataclass
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeact_kernel.blocks import DisplayOutput, ErrorOutput
from codeact_kernel.events import BlockOutput, ReplyDelta
from codeact_kernel.masking import Mask, StreamMask, environment_secrets, is_secret_name, url_password

KEY = "sk-Test/4242+zz~Q\"x'9"
MASK = Mask({"OPENAI_API_KEY": KEY})
SHOWN = "[secret OPENAI_API_KEY]"


@pytest.mark.parametrize(
    "written",
    [
        KEY,
        json.dumps(KEY)[1:-1],
        repr(KEY)[1:-1],
        quote(KEY),
        quote(KEY, safe=""),
        KEY.encode().hex(),
    ],
)
def test_a_secret_is_masked_however_it_is_escaped(written):
    assert MASK.text(f"before {written} after") == f"before {SHOWN} after"
    assert MASK.text(written) == SHOWN
    assert MASK.text(f"{written}{written}") == SHOWN * 2


@pytest.mark.parametrize("before", ["", "u", "us", "user:", "a longer name:"])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_base64_is_masked_at_every_offset_in_a_longer_text(before, encode):
    text = encode(f"{before}{KEY} and more".encode()).decode()
    masked = MASK.text(f"Authorization: Basic {text}")
    assert SHOWN in masked
    shown = masked.removeprefix("Authorization: Basic ").replace(SHOWN, "")
    assert KEY[2:-2].encode() not in base64.b64decode(shown.encode() + b"===", altchars=b"-_")


def test_what_is_no_secret_stays_the_same_object():
    text = "sk-Test/4242 is only the beginning of it"
    assert MASK.text(text) is text
    event = ReplyDelta(1, text)
    assert MASK.of(event) is event
    assert Mask().text(KEY) is KEY
    assert not Mask()
    assert not Mask({"SHORT_TOKEN": "abc1234", "DB_PASSWORD": "postgres", "A_TOKEN": " Disabled "})


def test_of_two_secrets_that_begin_alike_the_longer_one_is_masked_whole():
    mask = Mask({"A_TOKEN": "abcdefgh", "B_TOKEN": "abcdefghijkl"})
    assert (
        mask.text("abcdefghijkl abcdefgh abcdefghij")
        == "[secret B_TOKEN] [secret A_TOKEN] [secret A_TOKEN]ij"
    )


def test_a_mask_learns_and_the_first_name_of_a_value_stays():
    mask = Mask({"A_TOKEN": "abcdefgh"})
    mask.learn({"B_TOKEN": "abcdefgh", "C_TOKEN": "Bearer 0123456789", "D_PASSPHRASE": "someone somewhere"})
    assert mask.text("someone somewhere") == "[secret D_PASSPHRASE]"
    assert mask.text("somewhere") == "somewhere"
    assert mask.text("abcdefgh 0123456789 Bearer 0123456789") == "[secret A_TOKEN] " + " ".join(
        ["[secret C_TOKEN]"] * 2
    )


def test_single_lines_of_a_key_file_are_masked_and_its_frame_is_not():
    inside = "MIIBVgIBADANBgkqhkiG9w0BAQEF\nAASCAUAwggE8AgEAAkEAq7BFUpkG"
    pem = f"-----BEGIN PRIVATE KEY-----\n{inside}\n-----END PRIVATE KEY-----"
    mask = Mask({"DEPLOY_KEY": pem})
    assert mask.text(f"[{pem}]") == "[[secret DEPLOY_KEY]]"
    assert mask.text("x MIIBVgIBADANBgkqhkiG9w0BAQEF") == "x [secret DEPLOY_KEY]"
    assert mask.text("-----BEGIN PRIVATE KEY-----") == "-----BEGIN PRIVATE KEY-----"


def test_everything_that_holds_texts_is_looked_through():
    output = DisplayOutput({"text/html": f"<b>{KEY}</b>", "application/json": {KEY: [1, None, (KEY,)]}})
    masked = MASK.of(BlockOutput("b1", output)).output
    assert masked.data == {"text/html": f"<b>{SHOWN}</b>", "application/json": {SHOWN: [1, None, (SHOWN,)]}}
    assert output.data["text/html"] == f"<b>{KEY}</b>"
    assert MASK.of(ErrorOutput("E", "v", (KEY, "x"))).traceback == (SHOWN, "x")


def test_an_exception_loses_the_secrets_of_its_words():
    @dataclass
    class Odd(Exception):
        message: str

    error = Odd(f"401 for {KEY}")
    error.args = (f"401 for {KEY}", 3)
    MASK.error(error)
    assert (error.message, error.args) == (f"401 for {SHOWN}", (f"401 for {SHOWN}", 3))


@given(
    st.lists(st.sampled_from([KEY, KEY[:5], KEY[5:], "s", "\n", "words ", json.dumps(KEY)]), max_size=8),
    st.lists(st.integers(0, 120), max_size=12),
)
def test_a_stream_that_is_cut_anywhere_is_masked_as_if_it_came_whole(parts, cuts):
    text = "".join(parts)
    places = sorted({0, len(text), *(min(cut, len(text)) for cut in cuts)})
    stream = StreamMask(MASK)
    pieces = [stream.feed(text[a:b]) for a, b in itertools.pairwise(places)] + [stream.rest()]
    assert "".join(pieces) == MASK.text(text)


def test_only_what_may_begin_a_secret_is_kept_back():
    stream = StreamMask(MASK)
    assert stream.feed("the word is sk-") == "the word is "
    assert stream.feed("ip it\n") == "sk-ip it\n"
    assert stream.rest() == ""


@pytest.mark.parametrize(
    "name",
    ["OPENAI_API_KEY", "GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "AWS_SESSION_TOKEN", "PGPASSWORD",
     "client_secret", "STRIPE_KEY", "MYSQL_PWD", "SOME_APIKEY", "Authorization", "X-Api-Key", "Cookie"],
)  # fmt: skip
def test_names_of_secrets_are_known(name):
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    ["PATH", "HOME", "PWD", "OLDPWD", "AWS_REGION", "MAX_TOKENS", "KEYBOARD", "SSH_AUTH_SOCK", "Accept"],
)
def test_other_names_are_not(name):
    assert not is_secret_name(name)


def test_the_secrets_of_an_environment_include_passwords_in_urls():
    env = {
        "A_TOKEN": "t0ken-t0ken",
        "DATABASE_URL": "postgres://me:hunter22@db/x",
        "PATH": "/bin",
        "URL": "http://[bad@",
    }
    assert environment_secrets(env) == {"A_TOKEN": "t0ken-t0ken", "DATABASE_URL": "hunter22"}
    assert url_password("https://host/path") == ""
