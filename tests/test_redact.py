"""Secrets go, in whatever form they come; prose, code and counts stay as they are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_subagents.redact import MASK, redact

OPENAI = "sk-proj-Ab3dEf6hIj9kLm2nOp5qRs8tUv1wXy4z"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA7bq\n-----END RSA PRIVATE KEY-----"
QUARTER_OF_A_MEGABYTE = 250_000


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        # the shapes of keys
        pytest.param(f"Incorrect key {OPENAI}.", f"Incorrect key {MASK}.", id="an OpenAI key"),
        pytest.param("sk-svcacct-abc123DEF456", MASK, id="a short OpenAI key"),
        pytest.param("got sk-inval*******-key", f"got {MASK}", id="a key that OpenAI has masked in part"),
        pytest.param("sk-secret-secret-secret", MASK, id="a long key without digits"),
        pytest.param("sk-ant-api03-Zx9_kQ-7aa", MASK, id="an Anthropic key"),
        pytest.param("sk-or-v1-0123456789abcdef0123", MASK, id="an OpenRouter key"),
        pytest.param("AIzaSyA1234567890abcdefghijklmnopqrstuv", MASK, id="a Google key"),
        pytest.param("ya29.a0AfH6SMBxxxxxxxxxxxxxxxxxxxx", MASK, id="a Google access token"),
        pytest.param("id AKIAIOSFODNN7EXAMPLE used", f"id {MASK} used", id="an AWS key id"),
        pytest.param("ghp_16C7e42F292c6912E7710c838347Ae178B4a", MASK, id="a GitHub token"),
        pytest.param("github_pat_11ABCDEFG0abcdefghijkl_mnop", MASK, id="a fine-grained GitHub token"),
        pytest.param("glpat-ABCdef123456789_xyz0", MASK, id="a GitLab token"),
        pytest.param("xoxb-123456789012-abcdefABCDEF", MASK, id="a Slack bot token"),
        pytest.param("xapp-1-A012345-678901-abcdef", MASK, id="a Slack app token"),
        pytest.param("hf_AbCdEfGhIjKlMnOpQrStUvWxYz012345", MASK, id="a Hugging Face token"),
        pytest.param("gsk_AbCdEfGhIjKlMnOpQrStUvWxYz012345", MASK, id="a Groq key"),
        pytest.param(f"session {JWT}!", f"session {MASK}!", id="a JSON web token"),
        pytest.param(f"a\n{PEM}\nb", f"a\n{MASK}\nb", id="a private key"),
        pytest.param("-----BEGIN PRIVATE KEY-----\nMIIEvQ", MASK, id="a private key that was cut off"),
        pytest.param(
            "-----BEGIN PGP PRIVATE KEY BLOCK-----\nx\n-----END PGP PRIVATE KEY BLOCK-----", MASK, id="a PGP key"
        ),
        # headers
        pytest.param("Authorization: Bearer abcdefgh", f"Authorization: Bearer {MASK}", id="a bearer header"),
        pytest.param("authorization: Basic dXNlcjpwYXNz", f"authorization: Basic {MASK}", id="a basic header"),
        pytest.param("Authorization: Token abc123def", f"Authorization: Token {MASK}", id="a header of another scheme"),
        pytest.param("Authorization=Token abcdefgh", f"Authorization=Token {MASK}", id="a header with an equals sign"),
        pytest.param("Authorization: 9a8b7c6d", f"Authorization: {MASK}", id="a header without a scheme"),
        pytest.param(
            '{"Authorization": "Bearer abcdefgh", "n": 1}',
            f'{{"Authorization": "Bearer {MASK}", "n": 1}}',
            id="a bearer header in JSON",
        ),
        pytest.param(
            r'{"raw": "{\"authorization\": \"Bearer abcdefgh\"}"}',
            rf'{{"raw": "{{\"authorization\": \"Bearer {MASK}\"}}"}}',
            id="a bearer header in JSON in JSON",
        ),
        pytest.param(
            "{'Authorization': 'Basic dXNlcjpwYXNz'}",
            f"{{'Authorization': 'Basic {MASK}'}}",
            id="a basic header in a repr",
        ),
        pytest.param(
            "[(b'Authorization', b'Bearer abcd1234'), (b'Host', b'x')]",
            f"[(b'Authorization', b'Bearer {MASK}'), (b'Host', b'x')]",
            id="a bearer header in a repr of pairs",
        ),
        pytest.param("(b'x-api-key', b'abc123')", f"(b'x-api-key', b'{MASK}')", id="a key header in a repr of pairs"),
        pytest.param("sent Bearer a1b2c3d4e5", f"sent Bearer {MASK}", id="a bearer token without its header"),
        pytest.param("sent Basic dXNlcjpwYXNz.", f"sent Basic {MASK}.", id="basic credentials without their header"),
        pytest.param("sent basic YTpi, ok", "sent basic YTpi, ok", id="too short for basic credentials"),
        pytest.param("Basic dXNlcjpwYXNzdw==", f"Basic {MASK}", id="padded basic credentials"),
        pytest.param("x-api-key: 4f3c2b1a", f"x-api-key: {MASK}", id="a key header"),
        pytest.param("x-goog-api-key: abcdefghijklmnopqrstuvwxyz", f"x-goog-api-key: {MASK}", id="a key of letters"),
        # addresses
        pytest.param("https://me:pw@host/x", f"https://{MASK}@host/x", id="a URL with a password"),
        pytest.param("https://t0ken@host/x", f"https://{MASK}@host/x", id="a URL with a token"),
        pytest.param("postgres://u:p@ss@db:5432/x", f"postgres://{MASK}@db:5432/x", id="an @ in the password"),
        pytest.param("postgres://u:p#s?@db/x", f"postgres://{MASK}@db/x", id="a # in the password"),
        pytest.param("redis://:pw@cache", f"redis://{MASK}@cache", id="a password without a user"),
        pytest.param("/v1?api_key=abcd&x=1", f"/v1?api_key={MASK}&x=1", id="an api_key in a query"),
        pytest.param("/v1?key=abcd&x=1", f"/v1?key={MASK}&x=1", id="a key in a query"),
        pytest.param("/v1?x=1&token=abcd", f"/v1?x=1&token={MASK}", id="a token in a query"),
        pytest.param("/b?se=1&sig=a%2Bb%3D", f"/b?se=1&sig={MASK}", id="a signature in a query"),
        # assignments
        pytest.param("FOO_API_KEY=swordfish", f"FOO_API_KEY={MASK}", id="a key in the environment"),
        pytest.param("export DB_PASSWORD='sword fish'", f"export DB_PASSWORD='{MASK}'", id="a quoted password"),
        pytest.param(
            "aws_secret_access_key = wJalr/XUt7", f"aws_secret_access_key = {MASK}", id="a key in an INI file"
        ),
        pytest.param("password: hunter2", f"password: {MASK}", id="a password in YAML"),
        pytest.param("refresh_token=1//0abcDEF", f"refresh_token={MASK}", id="a token that begins with a number"),
        pytest.param("token=12345678", f"token={MASK}", id="a number too long for a count"),
        pytest.param("password=ab(c1 d", f"password={MASK} d", id="a parenthesis that does not close"),
        pytest.param("password='$ECret1', pwd='{ab1'", f"password='{MASK}', pwd='{MASK}'", id="hardly a placeholder"),
        pytest.param("pwd=12345;db=x", f"pwd={MASK};db=x", id="a password of digits in a DSN"),
        pytest.param('"clientSecret":"abcd"', f'"clientSecret":"{MASK}"', id="a camel-case secret in JSON"),
        pytest.param("accessToken: 'a\"b c'", f"accessToken: '{MASK}'", id="a quote of the other kind"),
        pytest.param("OpenAI(api_key='abcd', n=1)", f"OpenAI(api_key='{MASK}', n=1)", id="a key in a repr"),
        pytest.param("'password' => 'hunter2'", f"'password' => '{MASK}'", id="a password in PHP"),
        pytest.param("API key provided: ab12****yz89.", f"API key provided: {MASK}", id="a key in OpenAI's words"),
    ],
)
def test_a_secret_is_masked_and_nothing_else(text: str, clean: str):
    assert redact(text) == clean


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("The key: value pairs of a token bucket; keep it secret.", id="prose with the words"),
        pytest.param("Password: required. Token: missing. Secret: none of your business.", id="prose with colons"),
        pytest.param("Enter your password:\nThen press return.", id="a colon that ends a line"),
        pytest.param(
            "A basic understanding of basic TypeScript, a basic outerjoin, HTTP basic authentication",
            id="basic as a word",
        ),
        pytest.param("Bearer authentication needs a bearer token", id="bearer as a word"),
        pytest.param("Authorization: required", id="authorization as a word"),
        pytest.param("input_tokens=1234, output_tokens=56789, total_tokens: 58023", id="usage counters"),
        pytest.param("max_tokens: 4096", id="a limit"),
        pytest.param("max_token: 4096, 'token': 128000, token=1", id="a count of one token kind"),
        pytest.param("tokens: 1234, input_tokens=123456789", id="a number of tokens"),
        pytest.param("Out of token: 4096. token=5", id="a number that ends a sentence"),
        pytest.param("Basic YWJjZGVm", id="basic and the base64 of something else"),
        pytest.param("token_count=12345678, token_type: bearer, password_hash: argon2id", id="keys that go on"),
        pytest.param("Unexpected token: } at line 12", id="a parser's token"),
        pytest.param('print("password:", password1, "x")', id="a label in code"),
        pytest.param("def login(user: str, password: str, token: str | None = None) -> Token:", id="a signature"),
        pytest.param("login(password=None, token=null, secret=True)", id="constants in code"),
        pytest.param("token = get_token(user1); api_key=os.environ['OPENAI_API_KEY']", id="calls in code"),
        pytest.param("Client(token=self.token, password=settings.db.password)", id="attributes in code"),
        pytest.param("if token == expected1:", id="a comparison in code"),
        pytest.param('required: ["api_key", "password1", "token2"]', id="a list of names"),
        pytest.param('{"password": {"type": "string", "minLength": 8}}', id="a schema"),
        pytest.param("Authorization: Bearer <token>, api_key=${KEY}, token=$API_TOKEN", id="placeholders"),
        pytest.param('password="%(password)s", token="{token}", pad_token="[PAD]"', id="templates"),
        pytest.param("sk-fading-circle, task-12345678, scikit-learn, sk-learn", id="words with sk"),
        pytest.param("hf_hub_download, xai-explainability, ASIAPACIFICREGION", id="words that begin like keys"),
        pytest.param("https://example.org/a?b=c#d and me@example.org", id="a plain address"),
        pytest.param("ssh://git@github.com/a/b.git, git@github.com:a/b.git", id="a git remote"),
        pytest.param("https://example.org?mail=me@example.org", id="an e-mail address in a query"),
        pytest.param("-----BEGIN CERTIFICATE-----\nMIIC\n-----END CERTIFICATE-----", id="a certificate"),
        pytest.param("commit 9fceb02d0ae598e95dc970b74767f19372d61af8", id="a commit hash"),
        pytest.param("018f3e5c-7b1a-7c3e-9d55-0242ac120002", id="a task id"),
    ],
)
def test_ordinary_text_is_left_alone(text: str):
    assert redact(text) == text


FRAGMENTS = st.sampled_from(
    [
        *("token", "api_key", "password", "?key", "Authorization", "Bearer ", "Basic ", "sk-", "eyJ", "AKIA", "://"),
        *("=", ":", " ", '"', "'", "\\", "(b'", ", ", "@", "/", ".", "-", "[", "]", "(", "{", "\n", "None", "git@"),
        *("a", "Z", "7", "abcdefgh", "A1B2C3D4E5F6G7H8", "dXNlcjpwYXNz", "-----BEGIN PRIVATE KEY-----", MASK, JWT),
    ]
)


@given(st.lists(FRAGMENTS | st.text(max_size=3), max_size=40).map("".join))
def test_what_is_masked_stays_as_it_is(text: str):
    once = redact(text)
    assert redact(once) == once


@given(st.text(alphabet=st.characters(codec="utf-8")), st.text(alphabet=st.characters(codec="utf-8")))
def test_a_key_is_masked_wherever_it_stands(before: str, after: str):
    assert OPENAI not in redact(f"{before} {OPENAI} {after}")


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit",
    [
        *("a.", "a-", "a@", "A", " ", "\\", "token ", "token:", "token: ", "token=", 'token="', "token='a", "token=\\"),
        *("password=a.", "password: a(", "('token','", 'token\\\\\\"', "authorization: bearer ", "bearer ", "sk-a-"),
        *("eyJaaaaaaaa-", "eyJaaaaaaaa.", "://", "://a:", "://a:?", "-----BEGIN ", "-----BEGIN A PRIVATE KEY"),
        *("-----BEGIN PRIVATE KEY-----", "basic AAAAAAAA", "api key provided", "xoxb-", "?key", "https://a"),
    ],
)
def test_a_long_text_of_near_misses_takes_linear_time(unit: str):
    """With a quadratic pattern this takes an hour, not a moment: the run as a whole is the assertion."""
    nasty = unit * (QUARTER_OF_A_MEGABYTE // len(unit))
    assert len(redact(nasty)) <= 4 * QUARTER_OF_A_MEGABYTE
