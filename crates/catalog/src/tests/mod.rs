//! One test a file. Each file says what a correct device does, how unclear steps are read, and where a
//! false alarm could come from.

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

use verbatim_tester::Test;

/// All tests, in the order in which a run takes them.
pub static TESTS: &[&Test] = &[
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
                test.id.starts_with("c1") && !test.about.is_empty() && !test.statements.is_empty(),
                "{}",
                test.id
            );
        }
    }
}
