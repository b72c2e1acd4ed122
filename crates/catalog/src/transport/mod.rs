//! Chapter 9, the transport layer: reliable connections and datagrams.
//!
//! Module `rc` holds the code that the tests of reliable connections share.

pub(crate) mod rc;

// Completions: the packets that complete a request, and the order of completions
mod c09_027_responses_in_order;
mod c09_060_ack_of_read;
mod c09_060_atomic_responder;
mod c09_060_coalesced_ack;
mod c09_060_ghost_ack;
mod c09_060_requester;
mod c09_060_reserved_syndrome;
mod c09_060_responder;
mod c09_060_verbs;

// Timers and retries
mod c09_130_rnr_codes;
mod c09_130_rnr_interval;
mod c09_130_rnr_interval_verbs;
mod c09_142_ack_timeout;
mod c09_142_ack_timeout_verbs;
mod c09_142_long_timeout;
mod c09_142_progress;
mod c09_142_timer_restart;
mod c09_143_retry_count;
mod c09_rnr_retry;

// Loss by management
mod c09_impaired;

// Requests and responses: packets and PSNs
mod c09_address_vector;
mod c09_connections;
mod c09_duplicates;
mod c09_long_messages;
mod c09_many_messages;
mod c09_psn_regions;
mod c09_psn_sequence;
mod c09_read_response;
mod c09_receives;
mod c09_requests;
mod c09_requests_in_flight;
mod c09_reserved_bits;

// Packets that must have no effect: wrong CRCs, headers or keys, and duplicates within messages
mod c09_header_validation;
mod c09_icrc;
mod c09_inside_messages;
mod c09_link_p_key;
mod c09_link_tver;
mod c09_q_key;

// Datagrams and credits; Linux rxe as the DUT
mod c09_credits;
mod c09_datagram_limits;
mod c09_datagrams;
mod c09_datagrams_dropped;
mod datagrams;
mod soft_roce;

// NAKs and RNR NAKs; header changes; responses to drop; RESET and RTR
mod c09_nak_fatal;
mod c09_nak_implied;
mod c09_nak_invalid_request;
mod c09_nak_remote_access;
mod c09_nak_reserved_opcode;
mod c09_nak_sequence;
mod c09_network_headers;
mod c09_reset;
mod c09_response_validation;
mod c09_rnr_nak;
mod c09_rnr_nak_codes;
mod c09_rtr;
mod c09_send_invalidate;

// Queue pairs: states, events, local errors
mod c09_events;
mod c09_flush;
mod c09_local_errors;
mod c09_modify;
mod c09_modify_attributes;
mod c09_reset_again;
mod c09_send_queue_drain;
mod c09_send_queue_error;

// Random walks over the whole chapter
mod walk;

pub(crate) use walk::tell_if_broken;
pub use walk::{Rows, broken_values, failed_rows, rows};

use verbatim_tester::Test;

/// The chapter's tests, in the order of a run.
pub(crate) const TESTS: &[&Test] = &[
    &c09_027_responses_in_order::ATOMIC_AFTER_READS,
    &c09_027_responses_in_order::SEND_AFTER_READS,
    &c09_027_responses_in_order::WRITE_AFTER_READS,
    &c09_027_responses_in_order::READS_AFTER_ATOMIC,
    &c09_060_ack_of_read::TEST,
    &c09_060_atomic_responder::FETCH_ADD,
    &c09_060_atomic_responder::COMPARE_SWAP,
    &c09_060_coalesced_ack::TEST,
    &c09_060_ghost_ack::TEST,
    &c09_060_requester::SEND,
    &c09_060_requester::WRITE,
    &c09_060_requester::READ,
    &c09_060_requester::FETCH_ADD,
    &c09_060_requester::COMPARE_SWAP,
    &c09_060_reserved_syndrome::TEST,
    &c09_060_responder::SEND,
    &c09_060_responder::WRITE,
    &c09_060_responder::READ,
    &c09_060_verbs::REQUESTER,
    &c09_060_verbs::RESPONDER,
    &c09_130_rnr_codes::TEST,
    &c09_130_rnr_interval::PLAIN,
    &c09_130_rnr_interval::ACK_TIMEOUT,
    &c09_130_rnr_interval_verbs::TEST,
    &c09_142_ack_timeout::TEST,
    &c09_142_ack_timeout_verbs::TEST,
    &c09_142_long_timeout::TEST,
    &c09_142_progress::TEST,
    &c09_142_timer_restart::TEST,
    &c09_143_retry_count::TEST,
    &c09_address_vector::TEST,
    &c09_credits::TEST,
    &c09_datagram_limits::TEST,
    &c09_datagrams::TEST,
    &c09_datagrams_dropped::TEST,
    &c09_connections::TEST,
    &c09_duplicates::TEST,
    &c09_events::TEST,
    &c09_flush::TEST,
    &c09_header_validation::TEST,
    &c09_icrc::TEST,
    &c09_impaired::REQUESTER,
    &c09_impaired::RESPONDER,
    &c09_inside_messages::TEST,
    &c09_link_p_key::TEST,
    &c09_link_tver::TEST,
    &c09_local_errors::TEST,
    &c09_modify_attributes::TEST,
    &c09_modify::TEST,
    &c09_nak_fatal::TEST,
    &c09_nak_implied::TEST,
    &c09_nak_invalid_request::TEST,
    &c09_local_errors::RECEIVE_ERROR,
    &c09_nak_invalid_request::NO_RESOURCES,
    &c09_nak_remote_access::TEST,
    &c09_nak_sequence::TEST,
    &c09_network_headers::TEST,
    &c09_psn_regions::TEST,
    &c09_psn_sequence::TEST,
    &c09_q_key::TEST,
    &c09_read_response::TEST,
    &c09_long_messages::TEST,
    &c09_receives::TEST,
    &c09_requests::TEST,
    &c09_requests_in_flight::TEST,
    &c09_reserved_bits::TEST,
    &c09_rnr_nak::TEST,
    &c09_rnr_nak_codes::TEST,
    &c09_rtr::TEST,
    &c09_rnr_retry::TEST,
    &c09_send_invalidate::TEST,
    &c09_reset::TEST,
    &c09_reset::DESTROYED,
    &c09_response_validation::TEST,
    &c09_reset_again::TEST,
    &c09_send_queue_drain::TEST,
    &c09_send_queue_error::TEST,
    &walk::ATOMIC_REPLAY,
    &walk::LOSS_POSITIONS,
    &walk::STALE_RESPONSES,
    &walk::PSN_WRAP,
    &walk::REGION_EDGES,
    &walk::TEST,
    &walk::ASKED,
    &walk::DATAGRAMS,
    &walk::POSTED,
    &walk::REFUSED,
    &walk::STRAYS,
    &walk::PAIR_RNR,
    &walk::PAIR_RNR_RETRY,
    &walk::PAIR_TIMEOUT,
    &walk::PAIR_SEQUENCE,
    &walk::PAIR_ACCESS,
    &walk::PAIR_LENGTH,
    &walk::PAIR_ATOMICS,
    &walk::PAIR_ORDER,
    &c09_many_messages::TEST,
    // Last in the chapter: the DUT's host may crash.
    &walk::MALFORMED,
    &c09_nak_reserved_opcode::TEST,
];
