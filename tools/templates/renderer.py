# SPDX-License-Identifier: Apache-2.0
"""Our renderer as a process: tests/unit/tokenizer/render_templates.cc."""
import datetime
import json
import os
import subprocess

from templates.hugging_face import NOW


class Renderer:
    """Use as a context; outcome() takes what hugging_face.outcome() takes."""

    def __init__(self, program):
        self.program = program
        self.now = int(NOW.replace(tzinfo=datetime.timezone.utc).timestamp())

    def __enter__(self):
        self.process = subprocess.Popen([self.program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, "TZ": "UTC"})
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()

    def outcome(self, source, case, constants):
        going_on = case.get("continue_final_message", False)
        line = {**case, "template": source, "constants": constants, "now": self.now,
                "add_generation_prompt": case.get("add_generation_prompt", not going_on)}
        self.process.stdin.write(json.dumps(line) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def difference(theirs, ours):
    """What is different in words, or None. Where Python fails, we only have to fail; raise_exception keeps its words."""
    if "rendered" in theirs:
        return None if ours == theirs else "rendered differently"
    if "raised" in theirs:
        return None if ours.get("error") == theirs["raised"] else "another error than raise_exception's"
    return None if "rendered" not in ours else "rendered what Python does not"
