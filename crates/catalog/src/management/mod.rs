//! Chapters 13 and 14: the management model, and subnet management.
//!
//! The M_Key tests share `keys`, the tests of a node type share `adapter`, and `shadow` reads all attributes.

pub(crate) mod adapter;
pub(crate) mod keys;
mod shadow;

// 13: time to respond
mod c13_013_resp_time_value;
mod c13_014_response_time;

// 13: header of a response
pub(crate) mod c13_response_header;

// Methods and attributes of the class
mod c14_003_methods_and_attributes;

// M_Key: no check while it is 0
mod c14_015_get;
mod c14_015_lease;
mod c14_015_set;
mod c14_015_trap_repress;

// M_Key: responses and Sets at each protect level
mod c14_016_attributes;
mod c14_016_get;
mod c14_016_key_bits;
mod c14_016_set;

// M_Key: lease
mod c14_017_lease;
mod c14_017_lease_periods;
mod c14_017_lease_reload;
mod c14_017_lease_reset;
mod c14_017_lease_zero;

// Attributes of the node
mod c14_024_node_description;
mod c14_024_node_info;
mod c14_024_node_info_ports;
mod c14_024_node_type;

// Attributes of the port
mod c14_024_guid_info;
mod c14_024_p_key_table;
mod c14_024_port_info_codes;
mod c14_024_port_info_ext_speeds;
mod c14_024_port_info_illegal;
mod c14_024_port_info_legal;
mod c14_024_port_info_link;
mod c14_024_port_info_modifier;
mod c14_024_port_info_ro;
mod c14_024_port_info_rw;
mod c14_024_port_info_values;
mod c14_024_sl_to_vl;
mod c14_024_violation_counters;
mod c14_024_vl_arbitration_ca;

// Side effects of a Set
mod c14_024_side_effects;

// M_Key: violations
mod c14_029_counter;
mod c14_029_trap_repress;

// Traps
mod c14_trap;

// Random walks
mod walk;

use verbatim_tester::Test;

/// The chapters' tests, in the order of a run.
pub(crate) const TESTS: &[&Test] = &[
    &c13_013_resp_time_value::TEST,
    &c13_014_response_time::TEST,
    &c13_response_header::TEST,
    &c14_003_methods_and_attributes::TEST,
    &c14_015_get::TEST,
    &c14_015_lease::TEST,
    &c14_015_set::TEST,
    &c14_015_trap_repress::TEST,
    &c14_016_attributes::PROTECT_0,
    &c14_016_attributes::PROTECT_1,
    &c14_016_attributes::PROTECT_2,
    &c14_016_attributes::PROTECT_3,
    &c14_016_get::PROTECT_0,
    &c14_016_get::PROTECT_1,
    &c14_016_get::PROTECT_2,
    &c14_016_get::PROTECT_3,
    &c14_016_key_bits::TEST,
    &c14_016_set::PROTECT_0,
    &c14_016_set::PROTECT_1,
    &c14_016_set::PROTECT_2,
    &c14_016_set::PROTECT_3,
    &c14_017_lease::NOT_EARLY,
    &c14_017_lease::EXPIRES,
    &c14_017_lease::EXPIRES_AFTER_SET,
    &c14_017_lease::EXPIRES_AFTER_TRAP_REPRESS,
    &c14_017_lease_periods::TEST,
    &c14_017_lease_reload::TEST,
    &c14_017_lease_reset::TEST,
    &c14_017_lease_reset::BY_SET,
    &c14_017_lease_reset::BY_TRAP_REPRESS,
    &c14_017_lease_zero::TEST,
    &c14_024_guid_info::TEST,
    &c14_024_node_description::TEST,
    &c14_024_node_info::TEST,
    &c14_024_node_info_ports::TEST,
    &c14_024_node_type::TEST,
    &c14_024_p_key_table::TEST,
    &c14_024_port_info_codes::TEST,
    &c14_024_port_info_ext_speeds::TEST,
    &c14_024_port_info_illegal::TEST,
    &c14_024_port_info_legal::TEST,
    &c14_024_port_info_modifier::TEST,
    &c14_024_port_info_ro::TEST,
    &c14_024_port_info_link::TEST,
    &c14_024_port_info_rw::TEST,
    &c14_024_port_info_values::TEST,
    &c14_024_sl_to_vl::TEST,
    &c14_024_side_effects::TEST,
    &c14_024_violation_counters::TEST,
    &c14_024_vl_arbitration_ca::TEST,
    &c14_029_counter::TEST,
    &c14_029_trap_repress::TEST,
    &c14_trap::TEST,
    &walk::TEST,
];
