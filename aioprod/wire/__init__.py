"""Bytes on the wire: primitives, declarations of messages, the codec made from them, frames and the checksum."""
