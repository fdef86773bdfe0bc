// SPDX-License-Identifier: Apache-2.0
// What @huggingface/tokenizers computes: node tools/tokenizer_oracle.mjs LIBRARY FOLDER TEXTS OUT. FOLDER has a
// tokenizer.json, TEXTS is a JSON array of strings. OUT: {"ids": a list for each text, "decoded", "skipped": the texts
// that the ids give back with and without special tokens, "without_last", "without_first": those of the ids but one}.
import { readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [library, folder, textsFile, out] = process.argv.slice(2);
const { Tokenizer } = await import(pathToFileURL(library));
const json = (path) => JSON.parse(readFileSync(path, "utf8"));
const tokenizer = new Tokenizer(json(`${folder}/tokenizer.json`), {});

const decode = (ids, skip) =>
  ids.length === 0 ? "" : tokenizer.decode(ids, { skip_special_tokens: skip, clean_up_tokenization_spaces: false });
const answer = { ids: [], decoded: [], skipped: [], without_last: [], without_first: [] };
for (const text of json(textsFile)) {
  const { ids } = tokenizer.encode(text, { add_special_tokens: false });
  answer.ids.push(ids);
  answer.decoded.push(decode(ids, false));
  answer.skipped.push(decode(ids, true));
  answer.without_last.push(decode(ids.slice(0, -1), false));
  answer.without_first.push(decode(ids.slice(1), false));
}
writeFileSync(out, JSON.stringify(answer));
