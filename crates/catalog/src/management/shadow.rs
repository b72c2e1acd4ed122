//! Reads all attributes of a port, and finds those that changed without a Set.

use std::collections::BTreeMap;

use verbatim_record::{Exchange, Findings, Gap, Label, Passed, Trace};
use verbatim_tester::{Settable, Step, Tester};
use verbatim_wire::{AnyAttribute, AttributeId, MKey, Method, PortInfo, Status};

pub(crate) use verbatim_tester::shadow::{ATTRIBUTES as ALL, What};

/// Reads all attributes.
pub(crate) fn read(t: &mut Tester<'_>, label: Label<AnyAttribute>, key: MKey) -> Step {
    for what in ALL {
        t.ask_any(label, what, key)?;
    }
    Ok(())
}

/// Returns the attribute and the modifier of a request.
pub(crate) fn what(exchange: &Exchange) -> What {
    (exchange.request.attribute_id(), exchange.request.modifier())
}

/// Returns the last try of each request under a label; the key is the attribute and the modifier.
pub(crate) fn each(t: &Trace, label: Label<AnyAttribute>) -> BTreeMap<What, &Exchange> {
    t.each(label).map(|exchange| (what(exchange), exchange)).collect()
}

/// Returns whether the port has an attribute: whether it returned the attribute to the right key.
pub(crate) fn is_there(exchange: &Exchange) -> bool {
    let answer = exchange.answer();
    answer.is_some_and(|answer| answer.mad.status() == Status::OK)
}

/// Returns the name of an attribute, with its modifier unless that is 0.
pub(crate) fn name((attribute, modifier): What) -> String {
    let name = attribute.to_string();
    if modifier == 0 {
        name
    } else {
        format!("{name} {modifier:#x}")
    }
}

/// Describes the differences of two responses. Ignores the fields in `except`, and those that the device, its link or a
/// violation changes.
pub(crate) fn differences(before: &Exchange, after: &Exchange, except: &[&str]) -> Vec<String> {
    let (Some(before), Some(after)) = (before.answer(), after.answer()) else {
        return vec!["an answer is missing".into()];
    };
    let (before, after) = (&before.mad, &after.mad);
    if before.status() != after.status() {
        return vec![format!("status {} / {}", before.status(), after.status())];
    }
    if before.status() != Status::OK {
        return Vec::new();
    }
    let Some(shown) = AnyAttribute::of(before) else {
        let same = before.data() == after.data();
        return if same { Vec::new() } else { vec!["other bytes".into()] };
    };
    let moves = |name: &str| {
        except.contains(&name)
            || before.attribute_id() == AttributeId::PORT_INFO
                && (PortInfo::ITS_OWN.contains(&name) || PortInfo::NOT_RESTORABLE.contains(&name))
    };
    let (was, is) = (before.data(), after.data());
    let fields = shown.fields().iter().filter(|field| !moves(field.name));
    fields
        .filter_map(|field| {
            let entry = (0..field.count).find(|i| field.bits(was, *i) != field.bits(is, *i))?;
            Some(if field.count == 1 {
                format!("{} {} / {}", field.name, field.words(was), field.words(is))
            } else {
                let at = |bytes| field.bits(bytes, entry);
                format!("{} {entry}: {:#x} / {:#x}", field.name, at(was), at(is))
            })
        })
        .collect()
}

/// Returns whether the device's host may have changed the attribute: NodeDescription, or CapabilityMask for a manager
/// at the port. If NodeDescription has a value that the test has set, the host did not change it.
fn may_be_the_host_s(t: &Trace, (attribute, _): What, is: &Exchange, differ: &[String]) -> bool {
    let Some(now) = is.answer().filter(|_| !t.begin.simulated) else {
        return false;
    };
    match attribute {
        AttributeId::NODE_DESCRIPTION => !t.exchanges.iter().any(|of| {
            let is_set = of.request.method() == Method::SET && of.request.attribute_id() == attribute;
            is_set && of.request.data() == now.mad.data()
        }),
        AttributeId::PORT_INFO => differ.iter().all(|field| field.starts_with("CapabilityMask")),
        _ => false,
    }
}

/// Checks that no attribute changed between two readings, except the fields in `except`. Each changed attribute has its
/// own check.
///
/// # Errors
/// Returns an error when an attribute was not read twice.
pub(crate) fn unchanged(
    t: &Trace,
    f: &mut Findings<'_>,
    (statement, about): (&str, &str),
    (before, after): (Label<AnyAttribute>, Label<AnyAttribute>),
    except: &[(What, &[&'static str])],
) -> Result<(), Gap> {
    let (was, is) = (each(t, before), each(t, after));
    let mut same = 0;
    for (what, was) in &was {
        let is = is.get(what).ok_or(Gap::Missing(after.name))?;
        let except = except
            .iter()
            .filter(|(of, _)| of == what)
            .flat_map(|(_, fields)| *fields);
        let differ = differences(was, is, &except.copied().collect::<Vec<_>>());
        if differ.is_empty() {
            same += 1;
            continue;
        }
        let answered = was.answer().is_some() && is.answer().is_some();
        let result = if answered && !may_be_the_host_s(t, *what, is, &differ) {
            Passed::Fail
        } else {
            Passed::Inconclusive
        };
        f.claim(statement, format!("{} {about}", name(*what)))
            .by_all([*was, *is])
            .saw(differ.join("; "))
            .comes_to("as before", result);
    }
    f.claim(statement, format!("attributes {about}"))
        .saw(format!("{same} of {} as before", was.len()))
        .comes_to("as before", Passed::Pass);
    Ok(())
}
