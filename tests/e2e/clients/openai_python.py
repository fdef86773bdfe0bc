# SPDX-License-Identifier: Apache-2.0
"""The official OpenAI client for Python against a running server: models, chat, stream, usage, a clear error, cancel.

usage: openai_python.py BASE_URL
"""
import sys

import openai

client = openai.OpenAI(base_url=sys.argv[1], api_key="none", max_retries=0)
model = client.models.list().data[0].id


def ask(content, **more):
    return client.chat.completions.create(model=model, messages=[{"role": "user", "content": content}], **more)


def counted(first, last):
    return " ".join(map(str, range(first, last + 1)))


answer = ask("count from 3 to 40")
assert answer.choices[0].message.content == counted(3, 40), answer
assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens

text, usage = "", None
for chunk in ask("count from 5 to 20", stream=True, stream_options={"include_usage": True}):
    text += (chunk.choices[0].delta.content or "") if chunk.choices else ""
    usage = chunk.usage or usage
assert text == counted(5, 20), text
assert usage.completion_tokens > 0

try:
    ask("hi", temperature=9)
    raise SystemExit("temperature 9 was accepted")
except openai.BadRequestError as error:
    assert error.status_code == 400 and error.param == "temperature" and "temperature" in error.message, error

stream = ask("count from 1 to 300", stream=True, max_tokens=1400)
seen = 0
for chunk in stream:
    seen += len(chunk.choices)
    if seen > 5:
        stream.close()
        break
assert seen == 6, seen

completion = client.completions.create(model=model, prompt="count", max_tokens=4)
assert completion.usage.completion_tokens <= 4
print("openai (PyPI): models, chat, stream, usage, error, cancel, completion")
