"""The configuration of producers and all other clients, and the classes that it names."""

from __future__ import annotations

from aioprod.config._addresses import addresses_of, parse_address
from aioprod.config._base import Settings, settings_of
from aioprod.config._classes import KNOWN_CLASSES, Kind, close_instance, describe, instantiate, load_class
from aioprod.config._client import ClientConfig
from aioprod.config._files import read_file
from aioprod.config._producer import ProducerConfig
from aioprod.config._security import Password, SecurityConfig, Tokens, credentials_of, has_login, has_tls
from aioprod.config._session import SessionConfig
from aioprod.config._setting import Importance, Setting

__all__ = [
    "KNOWN_CLASSES",
    "ClientConfig",
    "Importance",
    "Kind",
    "Password",
    "ProducerConfig",
    "SecurityConfig",
    "SessionConfig",
    "Setting",
    "Settings",
    "Tokens",
    "addresses_of",
    "close_instance",
    "credentials_of",
    "describe",
    "has_login",
    "has_tls",
    "instantiate",
    "load_class",
    "parse_address",
    "read_file",
    "settings_of",
]
