"""What each command does. PyTorch and the rest of the library are imported by the command that needs them."""

from __future__ import annotations

import json
import re
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformer.errors import InputError, problem
from transformer.files import write_atomically

if TYPE_CHECKING:
    from transformer.capture.record import AttentionRecord
    from transformer.engine import Translation, Translator

FORMATS = (".npz", ".json", ".html")
SAMPLING = ("temperature", "top_k", "top_p", "seed")


def translate(arguments: Namespace) -> int:
    """A line of output for every line of input (``--nbest`` lines with a wider ``--nbest``), each as soon as it is
    there; a blank line gives a blank line."""
    if arguments.nbest > arguments.beam:
        rule = f"must not exceed --beam {arguments.beam}"
        raise InputError(problem("--nbest", rule, arguments.nbest, "widen the beam"))
    _refuse_contradictions(arguments)
    translator = _load(arguments)
    translate_one = _sampler(translator, arguments) if arguments.sample else _searcher(translator, arguments)
    given = [_whole(text) for text in arguments.text]
    for number, text in enumerate(given or _lines_of_input(), start=1):
        if text.strip() or given:
            try:
                found = translate_one(text)
            except InputError as error:
                if given:
                    raise
                raise InputError(f"standard input, line {number}: {error}") from error
            print(_translation(found, number, arguments), flush=True)
        else:
            print(json.dumps({"source": text, "text": "", "hypotheses": []}) if arguments.json else "", flush=True)
    return 0


def _refuse_contradictions(arguments: Namespace) -> None:
    """Options that would have no effect are mistakes."""
    for name in SAMPLING:
        if (value := getattr(arguments, name)) is not None and not arguments.sample:
            raise InputError(problem(f"--{name.replace('_', '-')}", "must go with --sample", value, "add --sample"))
    for name, off in (("nbest", 1), ("coverage_penalty", 0)):
        if (value := getattr(arguments, name)) != off and arguments.sample:
            raise InputError(
                problem(f"--{name.replace('_', '-')}", "cannot go with --sample", value, "leave out one of the two")
            )


def _searcher(translator: Translator, arguments: Namespace) -> Callable[[str], Translation]:
    prefix = translator.ids_of(_whole(arguments.prefix))

    def search(text: str) -> Translation:
        return translator.translate(
            text,
            arguments.beam,
            arguments.length_penalty,
            arguments.nbest,
            coverage_penalty=arguments.coverage_penalty,
            no_repeat_ngram=arguments.no_repeat_ngram,
            prefix_ids=prefix,
        )

    return search


def _sampler(translator: Translator, arguments: Namespace) -> Callable[[str], Translation]:
    from transformer.engine import SamplingOptions, Translation

    prefix = translator.ids_of(_whole(arguments.prefix))
    given = {name: getattr(arguments, name) for name in SAMPLING}
    options = SamplingOptions(
        **{name: value for name, value in given.items() if value is not None}, no_repeat_ngram=arguments.no_repeat_ngram
    )

    def draw(text: str) -> Translation:
        started = time.perf_counter()
        drawn = translator.sample(text, options, prefix)
        return Translation(text, translator.tokenizer.pieces(text), (drawn,), time.perf_counter() - started)

    return draw


def evaluate(arguments: Namespace) -> int:
    """Scores of a translated file, or of the test sets of a named corpus."""
    if arguments.dataset is not None:
        return _evaluate_dataset(arguments)
    if arguments.part:
        raise InputError(problem("--part", "must go with --dataset", arguments.part[0], "add --dataset NAME"))
    for name in ("source", "reference"):
        paths = getattr(arguments, name)
        if paths is None:
            raise InputError(f"--{name} must be given: name a file, or a corpus by --dataset.")
        for path in paths if name == "reference" else [paths]:
            if not path.is_file():
                raise InputError(problem(f"--{name}", "must be a file", str(path), "check the path"))
    translator = _load(arguments)
    from tqdm import tqdm

    from transformer.text.corpus import read_lines
    from transformer.training.evaluate import evaluate_files

    count = sum(bool(line.strip()) for line in read_lines(arguments.source))
    with tqdm(total=count, unit=" sentences", disable=None) as bar:  # no bar where standard error is no terminal
        result = evaluate_files(
            translator,
            arguments.source,
            arguments.reference,
            beam_size=arguments.beam,
            length_penalty=arguments.length_penalty,
            tokenized=arguments.tokenized,
            progress=bar.update,
        )
    _print_values(result, arguments.json)
    return 0


def _evaluate_dataset(arguments: Namespace) -> int:
    for name in ("source", "reference", "tokenized"):
        if (value := getattr(arguments, name)) is not None:
            remedy = "leave out one of the two"
            raise InputError(problem("--dataset", f"cannot go with --{name}", str(value), remedy))
    translator = _load(arguments)
    from tqdm import tqdm

    from transformer.training.scores import evaluate_dataset

    with tqdm(unit=" sentences", disable=None) as bar:
        result = evaluate_dataset(
            translator,
            arguments.dataset,
            arguments.data,
            arguments.part,
            beam_size=arguments.beam,
            length_penalty=arguments.length_penalty,
            progress=bar.update,
        )
    _print_values(result, arguments.json)
    return 0


def inspect(arguments: Namespace) -> int:
    """Write the attention maps; status 1 if they fail one of their own checks."""
    out: Path = arguments.out
    if out.suffix.lower() not in FORMATS:
        raise InputError(
            problem("--out", f"must end with {', '.join(FORMATS)} or .bertviz.npz", str(out), "choose one of them")
        )
    if not out.parent.is_dir():
        raise InputError(problem("--out", "must lie in a folder that exists", str(out), f"make {out.parent} first"))
    if out.is_dir():
        raise InputError(problem("--out", "must be a file", str(out), "give a file name"))
    translator = _load(arguments)
    record = translator.inspect(
        _whole(arguments.text),
        None if arguments.target is None else _whole(arguments.target),
        beam_size=arguments.beam,
        length_penalty=arguments.length_penalty,
    )
    content = _exported(record, out.name.lower(), translator.languages)
    try:
        write_atomically(out, content)
    except OSError as error:  # its own message would name the hidden file that is renamed into place
        remedy = f"choose another place ({error.strerror or error})"
        raise InputError(problem("--out", "must be a file that can be written", str(out), remedy)) from error
    kinds = ("encoder", "decoder", "cross")
    shapes = ", ".join(f"{kind} {'×'.join(map(str, record.attention(kind).shape))}" for kind in kinds)
    print(f"{record.source_text} → {record.target_text}", file=sys.stderr)
    print(f"{out}: {shapes} (layers × heads × queries × keys)")
    for check in record.checks:
        if not check.ok:
            print(f"Check failed, {check.name}: {check.detail}", file=sys.stderr)
    return 0 if record.ok else 1


def train(arguments: Namespace) -> int:
    """Hand over to the trainer."""
    for override in arguments.overrides:
        if "=" not in override:
            raise InputError(
                problem("--set", "must be section.key=value", override, "put RECIPE before --set, and = before a value")
            )
    if arguments.out is None and not arguments.dry_run:
        raise InputError(problem("--out", "must name the folder of the run", None, "add --out runs/NAME, or --dry-run"))
    if _whole(str(arguments.out)) != str(arguments.out):  # the model card names the folder
        raise InputError(problem("--out", "must be named in UTF-8", str(arguments.out), "choose another name"))
    from transformer.training.run import train_command

    return train_command(
        arguments.recipe,
        arguments.out,
        arguments.overrides,
        resume=arguments.resume,
        data_dir=arguments.data,
        dry_run=arguments.dry_run,
    )


def data(arguments: Namespace) -> int:
    """Print the folder that holds the corpus."""
    from transformer.text.datasets import fetch

    print(fetch(arguments.name, arguments.data, arguments.source))
    return 0


def info(arguments: Namespace) -> int:
    """What a checkpoint is."""
    translator = _load(arguments)
    from transformer.catalogue import CONFIG, TOKENIZER, WEIGHTS, snapshots

    files = {name: (translator.folder / name).stat().st_size for name in (WEIGHTS, CONFIG, TOKENIZER)}
    values = {
        "name": translator.name,
        "folder": str(translator.folder),
        "languages": translator.languages,
        "parameters": translator.parameter_count,
        "precision": translator.precision,
        "length_penalty": translator.length_penalty,
        "bytes": sum(files.values()),
        "files": files,
        "snapshots": list(snapshots(translator.folder)),
        "sha256": translator.sha256,
        "tokenizer_sha256": translator.tokenizer.fingerprint,
        "model": translator.config.to_dict(),
        **{key: translator.meta[key] for key in ("training", "data", "scores")},
    }
    _print_values(values, arguments.json)
    return 0


def _load(arguments: Namespace) -> Translator:
    from transformer.engine import load

    return load(arguments.checkpoint, snapshot=arguments.snapshot)


def _lines_of_input() -> Iterator[str]:
    """Read and decoded one by one, so that what is wrong with a line leaves those before it alone; only "\\n", or
    "\\r\\n", ends one."""
    if sys.stdin is None:  # Python's way to say that it was closed
        raise InputError(problem("standard input", "must be open", "closed", "give the sentences as arguments"))
    if sys.stdin.isatty():
        print("A sentence a line; end with Ctrl-D.", file=sys.stderr)
    for number, line in enumerate(sys.stdin.buffer, start=1):
        try:
            text = line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
        except UnicodeDecodeError as error:
            bad = line[error.start : error.start + 8]
            raise InputError(
                problem(f"standard input, line {number},", "must be UTF-8 text", bad, "convert it to UTF-8")
            ) from error
        yield text


def _whole(text: str) -> str:
    """An argument with U+FFFD for each byte that was not UTF-8: Python hands those over as lone surrogates, which no
    file can hold."""
    return re.sub("[\ud800-\udfff]", "\ufffd", text)


def _translation(found: Translation, number: int, arguments: Namespace) -> str:
    if arguments.json:
        return json.dumps(_plain(found), ensure_ascii=False)
    if arguments.nbest == 1:
        return found.text
    return "\n".join(
        f"{number}\t{rank}\t{hypothesis.score:.4f}\t{hypothesis.text}"
        for rank, hypothesis in enumerate(found.hypotheses, start=1)
    )


def _plain(found: Translation) -> dict[str, Any]:
    return {
        "source": found.source_text,
        "text": found.text,
        "source_tokens": [piece.label for piece in found.source],
        "tokens": list(found.tokens),
        "log_probs": list(found.log_probs),
        "total_log_prob": found.total_log_prob,
        "score": found.score,
        "seconds": found.seconds,
        "hypotheses": [
            {
                "text": hypothesis.text,
                "tokens": list(hypothesis.tokens),
                "ids": list(hypothesis.ids),
                "log_probs": list(hypothesis.log_probs),
                "total_log_prob": hypothesis.total_log_prob,
                "score": hypothesis.score,
                "coverage": hypothesis.coverage,
                "finished": hypothesis.finished,
            }
            for hypothesis in found.hypotheses
        ],
    }


def _exported(record: AttentionRecord, name: str, languages: dict[str, str]) -> bytes:
    if name.endswith(".html"):
        from transformer.plots.page import record_page

        return record_page(record, languages).encode()
    from transformer.capture.export import record_bertviz, record_json, record_npz

    if name.endswith(".bertviz.npz"):
        return record_bertviz(record)
    return record_npz(record) if name.endswith(".npz") else record_json(record).encode()


def _print_values(values: dict[str, Any], as_json: bool) -> None:
    """JSON, or a line for each value with nested ones indented."""
    if as_json:
        print(json.dumps(values, ensure_ascii=False))
    else:
        print("\n".join(_listed(values, "")))


def _listed(values: dict[str, Any], indent: str) -> Iterator[str]:
    width = max((len(key) for key in values), default=0)
    for key, value in values.items():
        if isinstance(value, dict) and value:
            yield f"{indent}{key}"
            yield from _listed(value, indent + "  ")
        elif isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
            yield f"{indent}{key}"
            for item in value:
                yield indent + "  " + ", ".join(f"{name} {_short(part)}" for name, part in item.items())
        else:
            yield f"{indent}{key:<{width}}  {_short(value)}"


def _short(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, (list, dict)):
        return json.dumps(value, ensure_ascii=False) if value else "none"
    return str(value)
