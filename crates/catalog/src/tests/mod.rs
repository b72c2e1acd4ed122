//! One test a file. Each file says what a correct device does, how unclear steps are read, and where a
//! false alarm could come from.

mod c04_dlid_lmc;
mod c07_link_crcs;
mod c07_link_delimiter;
mod c07_link_dlid;
mod c07_link_length;
mod c07_link_precedence;
mod c07_link_states;
mod c07_link_version;
mod c07_link_vl;
mod c08_link_grh;
mod c09_027_responses_in_order;
mod c09_060_ack_of_read;
mod c09_060_atomic_responder;
mod c09_060_coalesced_ack;
mod c09_060_ghost_ack;
mod c09_060_requester;
mod c09_060_reserved_syndrome;
mod c09_060_responder;
mod c09_060_verbs;
mod c09_130_rnr_codes;
mod c09_130_rnr_interval;
mod c09_130_rnr_interval_verbs;
mod c09_142_ack_timeout;
mod c09_142_ack_timeout_verbs;
mod c09_142_timer_restart;
mod c09_143_retry_count;
mod c09_duplicates;
mod c09_header_validation;
mod c09_icrc;
mod c09_link_p_key;
mod c09_link_tver;
mod c09_nak_fatal;
mod c09_nak_implied;
mod c09_nak_invalid_request;
mod c09_nak_remote_access;
mod c09_nak_reserved_opcode;
mod c09_nak_sequence;
mod c09_psn_sequence;
mod c09_q_key;
mod c09_read_response;
mod c09_requests;
mod c09_requests_in_flight;
mod c09_rnr_nak;
mod c09_rnr_retry;
mod c13_013_resp_time_value;
mod c13_014_response_time;
mod c14_003_methods_and_attributes;
mod c14_015_get;
mod c14_015_lease;
mod c14_015_set;
mod c14_015_trap_repress;
mod c14_016_get;
mod c14_016_set;
mod c14_017_lease;
mod c14_017_lease_reload;
mod c14_017_lease_reset;
mod c14_017_lease_zero;
mod c14_024_guid_info;
mod c14_024_node_description;
mod c14_024_node_info;
mod c14_024_node_info_ports;
mod c14_024_node_type;
mod c14_024_p_key_table;
mod c14_024_port_info_illegal;
mod c14_024_port_info_modifier;
mod c14_024_port_info_ro;
mod c14_024_port_info_rw;
mod c14_024_sl_to_vl;
mod c14_024_violation_counters;
mod c14_024_vl_arbitration_ca;
mod c14_029_counter;
mod c14_029_trap_repress;
mod c16_link_counters;

use verbatim_tester::Test;

/// All tests, in the order in which a run takes them.
pub static TESTS: &[&Test] = &[
    &c04_dlid_lmc::TEST,
    &c07_link_crcs::TEST,
    &c07_link_delimiter::TEST,
    &c07_link_dlid::TEST,
    &c07_link_length::TEST,
    &c07_link_precedence::TEST,
    &c07_link_states::TEST,
    &c07_link_version::TEST,
    &c07_link_vl::TEST,
    &c08_link_grh::TEST,
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
    &c09_142_timer_restart::TEST,
    &c09_143_retry_count::TEST,
    &c09_duplicates::TEST,
    &c09_header_validation::TEST,
    &c09_icrc::TEST,
    &c09_link_p_key::TEST,
    &c09_link_tver::TEST,
    &c09_nak_fatal::TEST,
    &c09_nak_implied::TEST,
    &c09_nak_invalid_request::TEST,
    &c09_nak_remote_access::TEST,
    &c09_nak_sequence::TEST,
    &c09_psn_sequence::TEST,
    &c09_q_key::TEST,
    &c09_read_response::TEST,
    &c09_requests::TEST,
    &c09_requests_in_flight::TEST,
    &c09_rnr_nak::TEST,
    &c09_rnr_retry::TEST,
    // The last of its chapter: a host may not survive it.
    &c09_nak_reserved_opcode::TEST,
    &c13_013_resp_time_value::TEST,
    &c13_014_response_time::TEST,
    &c14_003_methods_and_attributes::TEST,
    &c14_015_get::TEST,
    &c14_015_lease::TEST,
    &c14_015_set::TEST,
    &c14_015_trap_repress::TEST,
    &c14_016_get::PROTECT_0,
    &c14_016_get::PROTECT_1,
    &c14_016_get::PROTECT_2,
    &c14_016_get::PROTECT_3,
    &c14_016_set::PROTECT_0,
    &c14_016_set::PROTECT_1,
    &c14_016_set::PROTECT_2,
    &c14_016_set::PROTECT_3,
    &c14_017_lease::NOT_EARLY,
    &c14_017_lease::EXPIRES,
    &c14_017_lease::EXPIRES_AFTER_SET,
    &c14_017_lease_reload::TEST,
    &c14_017_lease_reset::TEST,
    &c14_017_lease_zero::TEST,
    &c14_024_guid_info::TEST,
    &c14_024_node_description::TEST,
    &c14_024_node_info::TEST,
    &c14_024_node_info_ports::TEST,
    &c14_024_node_type::TEST,
    &c14_024_p_key_table::TEST,
    &c14_024_port_info_illegal::TEST,
    &c14_024_port_info_modifier::TEST,
    &c14_024_port_info_ro::TEST,
    &c14_024_port_info_rw::TEST,
    &c14_024_sl_to_vl::TEST,
    &c14_024_violation_counters::TEST,
    &c14_024_vl_arbitration_ca::TEST,
    &c14_029_counter::TEST,
    &c14_029_trap_repress::TEST,
    &c16_link_counters::TEST,
];

#[cfg(test)]
mod listing {
    use super::*;

    #[test]
    fn every_file_of_this_directory_is_a_module_whose_tests_are_listed() {
        let source = include_str!("mod.rs");
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/src/tests");
        for entry in std::fs::read_dir(directory).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let stem = name.trim_end_matches(".rs");
            if stem != "mod" {
                assert!(
                    source.contains(&format!("    &{stem}::")),
                    "{name} has no test in TESTS"
                );
            }
        }
    }

    #[test]
    fn ids_are_unique_and_begin_with_a_statement_that_the_test_is_named_after() {
        let mut ids: Vec<_> = TESTS.iter().map(|test| test.id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), TESTS.len());
        for test in TESTS {
            assert!(
                test.id.starts_with('c') && !test.about.is_empty() && !test.statements.is_empty(),
                "{}",
                test.id
            );
        }
    }
}
