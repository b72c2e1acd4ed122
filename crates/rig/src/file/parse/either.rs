//! Values with more than one TOML type.

use core::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, Visitor};

use super::peer::SocketPair;

/// An unsigned 64-bit integer, as a TOML integer or as a string. TOML integers end below 2^63, so larger values need
/// the string. `Err` has the rejected text.
pub(super) struct Number(pub(super) Result<u64, String>);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Numbers;
        impl Visitor<'_> for Numbers {
            type Value = Number;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an integer, or a string such as \"0x1234\"")
            }
            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Number, E> {
                Ok(Number(u64::try_from(value).map_err(|_| value.to_string())))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Number, E> {
                let digits = text.replace('_', "");
                let value = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
                    Some(hex) if !hex.starts_with('+') => u64::from_str_radix(hex, 16).ok(),
                    Some(_) => None,
                    None if digits.starts_with('+') => None,
                    None => digits.parse().ok(),
                };
                Ok(Number(value.ok_or_else(|| format!("{text:?}"))))
            }
        }
        deserializer.deserialize_any(Numbers)
    }
}

/// A device's seed: a number, or the word "none".
pub(super) enum Seed {
    Is(i64),
    Word(String),
}

impl<'de> Deserialize<'de> for Seed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Seeds;
        impl Visitor<'_> for Seeds {
            type Value = Seed;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an integer, or \"none\"")
            }
            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Seed, E> {
                Ok(Seed::Is(value))
            }
            fn visit_str<E: de::Error>(self, word: &str) -> Result<Seed, E> {
                Ok(Seed::Word(word.into()))
            }
        }
        deserializer.deserialize_any(Seeds)
    }
}

/// The path of a model's socket, or the pair of sockets of a rig of kind `packet`.
#[derive(Clone)]
pub(super) enum Socket {
    Path(String),
    Pair(SocketPair),
}

impl<'de> Deserialize<'de> for Socket {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Sockets;
        impl<'de> Visitor<'de> for Sockets {
            type Value = Socket;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a path, or { local = \"t.sock\", remote = \"m.sock\" }")
            }
            fn visit_str<E: de::Error>(self, path: &str) -> Result<Socket, E> {
                Ok(Socket::Path(path.into()))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Socket, A::Error> {
                SocketPair::deserialize(de::value::MapAccessDeserializer::new(map)).map(Socket::Pair)
            }
        }
        deserializer.deserialize_any(Sockets)
    }
}
