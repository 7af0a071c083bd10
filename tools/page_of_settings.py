"""The parts of docs/settings.md that tell each setting, and each option of `semel serve`."""

import argparse

from semel.broker.all_settings import Kind, Setting, settings
from semel.cli.serve import parser


def settings_part(kind: Kind) -> str:
    head = "\n| setting | default | values | changes | |\n|---|---|---|---|---|\n"
    if kind == "topic":
        head = "\n| setting | default | values | of the broker | |\n|---|---|---|---|---|\n"
    return head + "".join(_row(each, kind) for each in settings(kind))


def _row(each: Setting, kind: Kind) -> str:
    default = f"`{each.default}`" if each.default else "none"
    if each.shown_default != each.default:
        default += f" ({each.shown_default})"
    elif each.unit:
        default += f" {each.unit}"
    values = f"{each.values} {each.unit}".strip()
    if kind == "broker":
        third = "at a start" if each.is_fixed else "at once"
    else:
        third = f"`{each.broker_setting}`" if each.broker_setting else ""
    return f"| `{each.name}` | {default} | {values} | {third} | {_text(each.about)} |\n"


def options_part() -> str:
    rows = ["\n| option | default | |\n|---|---|---|\n"]
    for action in parser()._actions:  # noqa: SLF001 - nothing else tells them.
        if action.help == argparse.SUPPRESS or not action.option_strings or action.dest == "help":
            continue
        name = action.option_strings[-1]
        shown = f"{name} {action.metavar or ''}".strip()
        default = "" if action.default in (None, False, ()) else f"`{action.default}`"
        about = (action.help or "").replace("%(default)s", str(action.default))
        about = about.removesuffix(f" (default: {action.default})")
        rows.append(f"| `{shown}` | {default} | {_text(about)} |\n".replace(" |  | ", " | | "))
    return "".join(rows)


def _text(text: str) -> str:
    return text.replace("|", "\\|")
