"""Profiles: the keys that Amazon's tools keep in a file, for stores that are given no others.

    ~/.aws/credentials      [default]  aws_access_key_id = ...  aws_secret_access_key = ...
    ~/.aws/config           [profile training]  region = eu-central-1

`AWS_PROFILE` names the section, `AWS_SHARED_CREDENTIALS_FILE` and `AWS_CONFIG_FILE` other files.
Only keys that are written down are read. A profile that leads to a program, a role or a login needs
a `credential_provider` of obstore's.
"""

from __future__ import annotations

import configparser
import os

# What a section has, and the option of a store that it is.
KEYS = {
    "aws_access_key_id": "access_key_id",
    "aws_secret_access_key": "secret_access_key",
    "aws_session_token": "session_token",
    "region": "region",
    "endpoint_url": "endpoint",
}


def files() -> tuple[str, str]:
    """The files with the keys and with the settings."""
    folder = os.path.expanduser(os.path.join("~", ".aws"))
    return (
        os.environ.get("AWS_SHARED_CREDENTIALS_FILE") or os.path.join(folder, "credentials"),
        os.environ.get("AWS_CONFIG_FILE") or os.path.join(folder, "config"),
    )


def stamp() -> tuple[object, ...]:
    """What changes when the files do."""
    found: list[object] = []
    for path in files():
        try:
            about = os.stat(path)
        except OSError:
            continue
        found.append((path, about.st_mtime_ns, about.st_size))
    return tuple(found)


def options() -> dict[str, str]:
    """The options of a store that the profile says; none where no keys are written down."""
    profile = os.environ.get("AWS_PROFILE") or "default"
    keys, settings = files()
    names = (profile, f"profile {profile}")
    found = {**_section(settings, names), **_section(keys, (profile,))}
    return found if {"access_key_id", "secret_access_key"} <= found.keys() else {}


def _section(path: str, names: tuple[str, ...]) -> dict[str, str]:
    parser = configparser.RawConfigParser(default_section="", strict=False)
    try:
        with open(path, encoding="utf-8") as file:
            parser.read_file(file)
    except (OSError, UnicodeDecodeError, configparser.Error):
        return {}
    for name in names:
        if parser.has_section(name):
            return {KEYS[key]: value for key, value in parser.items(name) if key in KEYS and value}
    return {}
