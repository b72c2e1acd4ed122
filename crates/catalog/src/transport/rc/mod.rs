//! What the tests of reliable connections share: reading a dialogue from a record, and the checks that recur.

pub(crate) mod answer;
pub(crate) mod ask;
mod case;
mod checks;
mod dialogue;
pub(crate) mod effect;
mod posted;
pub(crate) mod refusal;
mod requester;

pub(crate) use case::{Case, asked_again, cases, not_sent};
pub(crate) use checks::{
    GENERATION, ICRC, alive, answered_by, completion, completions_in_words, completions_of, evidence, in_words,
    is_alive_after, no_completion, path, quiet, reply, sound_packets,
};
pub(crate) use dialogue::{Dialogue, Done, Seen, dialogues};
pub(crate) use posted::{Posted, response_bytes};
pub(crate) use requester::{Ask, RESULTS, Requester, read_response, response_data};
