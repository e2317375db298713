"""The commands, their arguments, and what becomes of an error. Heavy imports are left to the command that runs."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from transformer.errors import TransformerError

PROGRAM = "python -m transformer"
SUCCESS, FAILED_CHECK, MISTAKE, INTERRUPTED, READER_GONE = 0, 1, 2, 130, 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status; ``argv`` is ``sys.argv[1:]`` if None.

    Raises:
        SystemExit: from argparse, after ``--help`` (0) or arguments that cannot be read (2).
    """
    _speak_utf8()
    arguments = _parse(argv)
    try:
        from transformer.cli import commands

        run: Callable[[argparse.Namespace], int] = getattr(commands, arguments.command)
        status = run(arguments)
        print(end="", flush=True)
        return status
    except TransformerError as error:
        # Of several processes that train together and fail for the same reason, one says it.
        return MISTAKE if getattr(error, "told", False) else _complain(str(error))
    except BrokenPipeError:
        _give_up_output()
        return READER_GONE
    except OSError as error:
        _give_up_output()
        where = f"{error.filename}: " if error.filename else ""
        return _complain(f"{where}{error.strerror or error}.")
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        return INTERRUPTED


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    parser = _Parser(prog=PROGRAM, description="Translate with, look into, and train an encoder-decoder Transformer.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    translate = _command(commands, "translate", "Translate sentences: the arguments, or standard input line by line.")
    _checkpoint(translate)
    translate.add_argument(
        "text", nargs="*", default=[], metavar="TEXT", help="a sentence each; standard input if there is none"
    )
    _search(translate)
    translate.add_argument("--nbest", type=_count, default=1, metavar="N", help="hypotheses to print, at most --beam")
    _steering(translate)
    _json(translate, "one JSON object a sentence")

    evaluate = _command(
        commands, "evaluate", "Translate a file, or the test sets of a named corpus, and score that: BLEU and chrF."
    )
    _checkpoint(evaluate)
    evaluate.add_argument("--source", type=Path, metavar="F", help="a sentence a line (.gz too)")
    evaluate.add_argument(
        "--reference",
        type=Path,
        nargs="+",
        metavar="F",
        help="its translation, line by line; an empty line in a second or later file is no translation",
    )
    evaluate.add_argument("--dataset", metavar="NAME", help="instead of files: a corpus that was fetched with data")
    evaluate.add_argument(
        "--part",
        nargs="+",
        default=[],
        metavar="P",
        help="sets of --dataset, such as dev; all its test sets if left out",
    )
    evaluate.add_argument("--data", type=Path, default=Path("data"), metavar="DIR", help="folder of the corpora (data)")
    evaluate.add_argument(
        "--tokenized",
        metavar="LANG",
        help="the reference is lower-cased and tokenised by Moses: give the output that form, by the rules of LANG",
    )
    _search(evaluate)
    _json(evaluate, "one JSON object")

    inspect = _command(commands, "inspect", "Write every attention map of a sentence and its translation.")
    _checkpoint(inspect)
    inspect.add_argument("text", metavar="TEXT", help="a sentence")
    inspect.add_argument("--target", metavar="TEXT", help="a translation of it; the model's own if left out")
    inspect.add_argument(
        "--out", type=Path, required=True, metavar="F", help="a file that ends with .npz, .bertviz.npz, .json or .html"
    )
    _search(inspect)

    train = _command(commands, "train", "Train a model by a recipe.")
    train.add_argument("recipe", metavar="RECIPE", help="the name of a recipe, or a .toml file")
    train.add_argument("--out", type=Path, metavar="DIR", help="where checkpoint and history go")
    train.add_argument(
        "--set",
        dest="overrides",
        action="extend",
        nargs="+",
        default=[],
        metavar="section.key=value",
        help="values that replace those of the recipe",
    )
    train.add_argument("--resume", action="store_true", help="go on where a run in DIR stopped")
    train.add_argument("--data", type=Path, metavar="DIR", help="folder of the corpora")
    train.add_argument(
        "--dry-run", action="store_true", help="say what the run would be and how long it would take; write nothing"
    )

    data = _command(commands, "data", "Fetch a named corpus and verify it.")
    data.add_argument("name", metavar="NAME", help="for example multi30k")
    data.add_argument("--from", dest="source", type=Path, metavar="DIR", help="take local copies from DIR")
    data.add_argument("--data", type=Path, default=Path("data"), metavar="DIR", help="where it goes (data)")

    info = _command(commands, "info", "Say what a checkpoint is: sizes, data, scores.")
    _checkpoint(info)
    _json(info, "one JSON object")
    return parser


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One sentence, not the whole usage."""
        self.exit(MISTAKE, f"{self.prog}: {message} (see {self.prog} --help).\n")


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = build_parser()
    arguments, rest = parser.parse_known_args(argv)
    if rest and arguments.command == "translate":
        # argparse takes positional arguments in one run; sentences that follow an option are left over.
        bound = rest.index("--") if "--" in rest else len(rest)
        sentences, behind = rest[:bound], rest[bound + 1 :]
        rest = [word for word in sentences if word.startswith("-") and " " not in word]
        arguments.text = [*arguments.text, *sentences, *behind]
    if rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    return arguments


def _command(
    commands: argparse._SubParsersAction[_Parser],
    name: str,
    description: str,
) -> argparse.ArgumentParser:
    return commands.add_parser(name, help=description, description=description, allow_abbrev=False)


def _checkpoint(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help="a folder, or the name of one under checkpoints/")
    parser.add_argument(
        "--snapshot", type=_count, metavar="STEP", help="the model as it was after so many updates (see info)"
    )


def _search(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--beam", type=_beam, default=5, metavar="N", help="hypotheses kept at each step (5)")
    parser.add_argument(
        "--length-penalty",
        type=float,
        metavar="A",
        help="alpha of ((5+n)/6)^alpha; 0 turns it off (the checkpoint's own, see info)",
    )


def _steering(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--prefix", default="", metavar="TEXT", help="what every translation shall begin with")
    parser.add_argument(
        "--coverage-penalty",
        type=float,
        default=0.0,
        metavar="B",
        help="beta of Wu et al. 2016: a translation that overlooks source words scores less; 0 turns it off (0)",
    )
    parser.add_argument(
        "--no-repeat-ngram",
        type=int,
        default=0,
        metavar="N",
        help="write no N pieces in a row twice; 0 is off (0)",
    )
    parser.add_argument("--sample", action="store_true", help="draw each piece at random instead of searching")
    sampling = parser.add_argument_group("with --sample")
    sampling.add_argument("--temperature", type=float, metavar="T", help="below 1 bolder, above 1 more even (1)")
    sampling.add_argument("--top-k", type=int, metavar="K", help="draw from the K most probable pieces; 0 is off (0)")
    sampling.add_argument(
        "--top-p", type=float, metavar="P", help="draw from the fewest pieces that hold this probability (1)"
    )
    sampling.add_argument("--seed", type=int, metavar="N", help="the same seed gives the same translation (0)")


def _json(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument("--json", action="store_true", help=f"print {what}")


def _count(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, but it was {text!r}")
    return value


def _beam(text: str) -> int:
    from transformer.decoding.options import WIDEST_BEAM

    value = _count(text)
    if value > WIDEST_BEAM:
        raise argparse.ArgumentTypeError(f"must be a whole number of at most {WIDEST_BEAM}, but it was {text!r}")
    return value


def _give_up_output() -> None:
    """If standard output cannot take what is left, let it go nowhere: the interpreter flushes once more at its end."""
    try:
        print(end="", flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _complain(sentence: str) -> int:
    with contextlib.suppress(OSError):  # a log on a full disk
        print(sentence, file=sys.stderr, flush=True)
    return MISTAKE


def _speak_utf8() -> None:
    """UTF-8 whatever the locale is; the bytes of a file name that are none are written as escapes."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(encoding="utf-8", errors="backslashreplace")
