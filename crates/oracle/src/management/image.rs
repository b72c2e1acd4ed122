//! What is known of one attribute, field by field, element by element.

use verbatim_wire::{AnyAttribute, AttributeId, Field, Mad, PortInfo, Style};

use super::known::Known;
use crate::Rule;

/// An attribute as it may be by now.
#[derive(Clone, Debug)]
pub(super) struct Image {
    fields: &'static [Field],
    /// An element of a field after the other; empty while all may be anything: of the parts of a table that a test asks for in
    /// vain, there are tens of thousands.
    known: Vec<Known>,
    /// The exchange that showed it last, or 0.
    pub(super) shown_in: u32,
    /// Sets since then that must have changed nothing of what they carried: with a wrong key, or of an illegal value.
    pub(super) denied: Vec<Denied>,
    /// Whether it was Set since then.
    pub(super) is_set: bool,
    /// Whether nobody but us could have Set anything when it was shown.
    pub(super) was_ours: bool,
}

/// A Set that must not be obeyed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Denied {
    /// Its exchange.
    pub(super) exchange: u32,
    /// The rule by which.
    pub(super) rule: Rule,
}

/// One element of a field.
#[derive(Clone, Copy, Debug)]
pub(super) struct Element {
    pub(super) field: &'static Field,
    pub(super) index: usize,
    place: usize,
}

impl Element {
    /// Its bits in the bytes of the attribute.
    pub(super) fn bits(&self, bytes: &[u8]) -> u64 {
        self.field.bits(bytes, self.index)
    }

    /// As people call it.
    pub(super) fn name(&self) -> String {
        if self.field.count == 1 {
            self.field.name.into()
        } else {
            format!("{} {}", self.field.name, self.index)
        }
    }

    /// A value of it in words.
    pub(super) fn words(&self, value: u64) -> String {
        if self.field.count == 1 {
            self.field.words_of(value)
        } else {
            format!("{value:#x}")
        }
    }
}

impl Image {
    /// The attribute that a MAD carries, of which nothing is known; `None` when its layout is not known.
    pub(super) fn of(mad: &Mad) -> Option<Self> {
        Some(Self {
            fields: AnyAttribute::of(mad)?.fields(),
            known: Vec::new(),
            shown_in: 0,
            denied: Vec::new(),
            is_set: false,
            was_ours: false,
        })
    }

    /// Its elements in wire order, without those that are reserved.
    pub(super) fn elements(&self) -> impl Iterator<Item = Element> + use<> {
        let mut place = 0;
        let fields = self.fields.iter().flat_map(move |field| {
            let first = place;
            place += field.count;
            (0..field.count).map(move |index| Element {
                field,
                index,
                place: first + index,
            })
        });
        fields.filter(|element| element.field.style != Style::Reserved)
    }

    /// What is known of an element.
    pub(super) fn known(&self, element: Element) -> &Known {
        static ANY: Known = Known::Any;
        self.known.get(element.place).unwrap_or(&ANY)
    }

    /// Nothing is known of an element any more.
    pub(super) fn forget(&mut self, element: Element) {
        if let Some(known) = self.known.get_mut(element.place) {
            *known = Known::Any;
        }
    }

    /// An element may be this as well.
    pub(super) fn or(&mut self, element: Element, value: u64) {
        if let Some(known) = self.known.get_mut(element.place) {
            known.or(value);
        }
    }

    /// What is known of an element, to be changed.
    pub(super) fn known_mut(&mut self, element: Element) -> &mut Known {
        if self.known.is_empty() {
            let elements = self.fields.iter().map(|field| field.count).sum();
            self.known = vec![Known::Any; elements];
        }
        &mut self.known[element.place]
    }

    /// What is known of a field that is no table; `Any` when there is no such field.
    pub(super) fn field(&self, name: &str) -> Known {
        let element = self.elements().find(|element| element.field.name == name);
        element.map_or(Known::Any, |element| self.known(element).clone())
    }

    /// The same, to be changed.
    pub(super) fn field_mut(&mut self, name: &str) -> Option<&mut Known> {
        let element = self.elements().find(|element| element.field.name == name)?;
        Some(self.known_mut(element))
    }
}

/// Whether a field is moved by the device, its link or by what others send, so that nothing can be said of it here.
pub(super) fn moves(simulated: bool, attribute: AttributeId, name: &str) -> bool {
    // No packet of another partition, or with another Q_Key, is among SMPs; in real time others send some.
    let by_others = matches!(name, "P_KeyViolations" | "Q_KeyViolations");
    attribute == AttributeId::PORT_INFO
        && !(by_others && simulated)
        && (PortInfo::MOVED_BY_PORT.contains(&name) || PortInfo::VIOLATIONS.contains(&name))
}

#[cfg(test)]
mod tests {
    use verbatim_wire::Method;

    use super::*;

    #[test]
    fn an_attribute_of_which_nothing_is_known_takes_no_room_for_its_elements() {
        let mad = Mad::lid_routed(Method::SET, AttributeId::VL_ARBITRATION, 0);
        let mut image = Image::of(&mad).unwrap();
        for element in image.elements() {
            image.or(element, 3);
            image.forget(element);
            assert_eq!(image.known(element), &Known::Any);
        }
        assert_eq!(image.known.capacity(), 0);
        let first = image.elements().next().unwrap();
        *image.known_mut(first) = Known::is(1);
        image.or(first, 2);
        assert_eq!(image.known(first).all(), Some(&[1, 2][..]));
        image.forget(first);
        assert_eq!(image.known(first), &Known::Any);
    }
}
