"""Our requests, read by the types of the vendors' own SDKs, and answers of a mock vendor, read by their clients.

    vendor_sdk.py check             standard input: [{"name", "vendor", "body"}]
    vendor_sdk.py ask VENDOR URL    streams one answer from URL

Prints JSON: `check` a list of problems, which is empty if every member of every request is one that the SDK declares, with a
value of the declared type; `ask` the text and the calls that the client read.
"""

import collections.abc
import json
import sys
import types as python_types
import typing

import anthropic
import openai
import pydantic
from anthropic.types.message_create_params import MessageCreateParamsStreaming
from google import genai
from google.genai import types as gemini
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming
from typing_extensions import is_typeddict

REQUESTS = {
    "anthropic": MessageCreateParamsStreaming,
    "openai": ResponseCreateParamsStreaming,
    "openai-chat": CompletionCreateParamsStreaming,
}
LISTS = (list, collections.abc.Iterable, collections.abc.Sequence)
UNIONS = (typing.Union, python_types.UnionType)


class Problem(Exception):
    """A value that does not match its type: where, and why."""

    def __init__(self, path, why):
        super().__init__(f"{path or '/'}: {why}")
        self.depth = path.count("/")


def check(value, hint, path=""):
    """Compares a JSON value with a type of an SDK. A member that a dictionary does not declare is a problem."""
    origin = typing.get_origin(hint)
    arguments = typing.get_args(hint)
    if origin is typing.Annotated or str(origin) in ("typing.Required", "typing_extensions.Required"):
        return check(value, arguments[0], path)
    if str(origin) in ("typing.NotRequired", "typing_extensions.NotRequired"):
        return check(value, arguments[0], path)
    if hint in (typing.Any, object):
        return None
    if isinstance(hint, typing.TypeAliasType if hasattr(typing, "TypeAliasType") else ()):
        return check(value, hint.__value__, path)
    if origin in UNIONS:
        return check_any(value, arguments, path)
    if origin is typing.Literal:
        if value not in arguments:
            raise Problem(path, f"{value!r} is none of {arguments}")
        return None
    if is_typeddict(hint):
        return check_members(value, hint, path)
    if origin in LISTS:
        if not isinstance(value, list):
            raise Problem(path, "is not a list")
        for index, element in enumerate(value):
            check(element, arguments[0], f"{path}/{index}")
        return None
    if origin in (dict, collections.abc.Mapping):
        if not isinstance(value, dict):
            raise Problem(path, "is not an object")
        for key, member in value.items():
            check(member, arguments[1], f"{path}/{key}")
        return None
    if isinstance(hint, type) and issubclass(hint, pydantic.BaseModel):
        # Only an object of Python, never JSON.
        raise Problem(path, f"is not a {hint.__name__}")
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return None
    if isinstance(hint, type) and isinstance(value, hint) and not (hint is int and isinstance(value, bool)):
        return None
    raise Problem(path, f"{value!r:.80} is not {hint}")


def check_any(value, choices, path):
    """One of the choices; the problem is that of the choice that fits best."""
    problems = []
    for choice in choices:
        try:
            return check(value, choice, path)
        except Problem as problem:
            problems.append(problem)
    raise max(problems, key=lambda problem: problem.depth)


def check_members(value, hint, path):
    if not isinstance(value, dict):
        raise Problem(path, f"is not an object of {hint.__name__}")
    declared = {wire_name(name, of): of for name, of in typing.get_type_hints(hint, include_extras=True).items()}
    required = {wire_name(name, typing.get_type_hints(hint, include_extras=True)[name]) for name in hint.__required_keys__}
    for name in sorted(required - value.keys()):
        raise Problem(path, f"`{name}` of {hint.__name__} is missing")
    for name, member in value.items():
        if name not in declared:
            raise Problem(f"{path}/{name}", f"{hint.__name__} has no such member")
        check(member, declared[name], f"{path}/{name}")


def wire_name(name, hint):
    """The name of a member in JSON."""
    while typing.get_origin(hint) is not None:
        for mark in getattr(hint, "__metadata__", ()):
            if getattr(mark, "alias", None):
                return mark.alias
        inner = typing.get_args(hint)
        if not inner or typing.get_origin(hint) in UNIONS:
            break
        hint = inner[0]
    return name


def check_gemini(body):
    """Gemini's types are models that refuse members that they do not declare."""
    known = {"contents", "systemInstruction", "tools", "toolConfig", "generationConfig"}
    if unknown := body.keys() - known:
        raise Problem("", f"unknown members {unknown}")
    for index, content in enumerate(body["contents"]):
        validate(gemini.Content, content, f"/contents/{index}")
    for index, tool in enumerate(body.get("tools", [])):
        validate(gemini.Tool, tool, f"/tools/{index}")
    for name, model in (
        ("systemInstruction", gemini.Content),
        ("toolConfig", gemini.ToolConfig),
        ("generationConfig", gemini.GenerationConfig),
    ):
        if name in body:
            validate(model, body[name], f"/{name}")


def validate(model, value, path):
    if model.model_config.get("extra") != "forbid":
        raise Problem(path, f"{model.__name__} accepts everything, so this proves nothing")
    try:
        model.model_validate(value)
    except pydantic.ValidationError as error:
        raise Problem(path, str(error)) from error


def check_all(requests):
    problems = []
    for request in requests:
        vendor, body = request["vendor"], request["body"]
        try:
            if vendor == "gemini":
                check_gemini(body)
            else:
                check(body, REQUESTS[vendor])
        except Problem as problem:
            problems.append(f"{request['name']}: {problem}")
    return problems


def ask(vendor, url):
    """One question, streamed; the text and the calls as the client of the vendor reads them."""
    question = [{"role": "user", "content": "read it"}]
    if vendor == "anthropic":
        client = anthropic.Anthropic(api_key="sk-test", base_url=url, max_retries=0)
        with client.messages.stream(model="m", max_tokens=100, messages=question) as stream:
            message = stream.get_final_message()
        text = "".join(block.text for block in message.content if block.type == "text")
        calls = [[block.name, block.input] for block in message.content if block.type == "tool_use"]
        return text, calls
    if vendor == "openai":
        client = openai.OpenAI(api_key="sk-test", base_url=url, max_retries=0)
        events = list(client.responses.create(model="m", input=question, stream=True, store=False))
        response = events[-1].response
        calls = [[item.name, json.loads(item.arguments)] for item in response.output if item.type == "function_call"]
        return response.output_text, calls
    if vendor == "openai-chat":
        client = openai.OpenAI(api_key="sk-test", base_url=url, max_retries=0)
        text, calls = "", {}
        for chunk in client.chat.completions.create(model="m", messages=question, stream=True):
            for choice in chunk.choices:
                text += choice.delta.content or ""
                for call in choice.delta.tool_calls or []:
                    known = calls.setdefault(call.index, ["", ""])
                    known[0] += call.function.name or ""
                    known[1] += call.function.arguments or ""
        return text, [[name, json.loads(arguments)] for name, arguments in calls.values()]
    client = genai.Client(api_key="sk-test", http_options=gemini.HttpOptions(base_url=url, api_version="v1beta"))
    text, calls = "", []
    for chunk in client.models.generate_content_stream(model="m", contents="read it"):
        for part in chunk.candidates[0].content.parts or [] if chunk.candidates else []:
            text += (part.text or "") if not part.thought else ""
            if part.function_call:
                calls.append([part.function_call.name, part.function_call.args])
    return text, calls


def main(words):
    if words == ["check"]:
        print(json.dumps(check_all(json.load(sys.stdin))))
        return
    _, vendor, url = words
    text, calls = ask(vendor, url)
    print(json.dumps({"text": text, "calls": calls}))


if __name__ == "__main__":
    main(sys.argv[1:])
