//! "Did you mean": which known name is the nearest to what was typed, as a person sees it.

use core::cmp::Reverse;

/// Nobody types a longer name, and comparing takes the product of the lengths.
const LONGEST: usize = 64;

/// The known name that is the nearest to what was typed, where one is near enough to be meant: no more than a third of its
/// letters are wrong.
///
/// Case, the kind of separator and leading zeros of a number do not count, two letters that changed places count as one
/// mistake, and so does all that is missing behind a word: `c14-16-get` is nearer to `c14-016-get-protect-0` than to
/// `c14-015-get`. Of those that are equally near, one of the same letters comes first, then the one that begins alike.
#[must_use]
pub fn nearest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let letters = typed.chars().count();
    if !(1..=LONGEST).contains(&letters) {
        return None;
    }
    let typed = plain(typed);
    let most = (typed.chars().count() / 3).max(1);
    known
        .into_iter()
        .map(|name| (far(&typed, &plain(name)), name))
        .filter(|((mistakes, ..), _)| *mistakes <= most)
        .min_by_key(|(far, _)| *far)
        .map(|(_, name)| name)
}

/// How far a name is from what was typed: mistakes, whether other letters are in it, letters at the front that are the same.
type Far = (usize, bool, Reverse<usize>);

fn far(typed: &str, name: &str) -> Far {
    let begins_alike = typed.chars().zip(name.chars()).take_while(|(one, other)| one == other);
    let alike = begins_alike.count();
    let of = |part: &str, missing: usize| {
        let mistakes = strsim::osa_distance(typed, part) + missing;
        (mistakes, sorted(typed) != sorted(part), Reverse(alike))
    };
    let words = name.match_indices('-').map(|(end, _)| of(&name[..end], 1));
    words.fold(of(name, 0), Far::min)
}

fn sorted(letters: &str) -> Vec<char> {
    let mut letters: Vec<char> = letters.chars().collect();
    letters.sort_unstable();
    letters
}

/// A name in small letters, hyphens between its words, numbers without zeros in front: `c14-16-get` for `C14_016_Get`.
fn plain(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut rest = name.chars().peekable();
    let mut in_number = false;
    while let Some(letter) = rest.next() {
        let goes_on = rest.peek().is_some_and(char::is_ascii_digit);
        if letter == '0' && !in_number && goes_on {
            continue;
        }
        in_number = letter.is_ascii_digit();
        match letter {
            ' ' | '_' => out.push('-'),
            letter => out.push(letter.to_ascii_lowercase()),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [&str; 8] = [
        "c09-060-read-responder",
        "c09-walk",
        "c14-015-get",
        "c14-016-get-protect-0",
        "c14-016-get-protect-2",
        "c14-016-set-protect-0",
        "c14-024-node-info",
        "c14-walk",
    ];

    #[test]
    fn two_letters_that_changed_places_are_one_mistake() {
        assert_eq!(nearest("rnu", ["judge", "run", "runs"]), Some("run"));
        assert_eq!(nearest("C14-61", ["C14-15", "C14-16", "C14-21"]), Some("C14-16"));
        assert_eq!(nearest("c14-wakl", KNOWN), Some("c14-walk"));
    }

    #[test]
    fn zeros_in_front_case_and_the_kind_of_separator_do_not_count() {
        assert_eq!(plain("C09_060 Read-100-0"), "c9-60-read-100-0");
        assert_eq!(nearest("c14-24-node_infos", KNOWN), Some("c14-024-node-info"));
        assert_eq!(
            nearest("9.7.7.1-mns", ["7.8.1 ICRC", "9.7.7.1 MSN"]),
            Some("9.7.7.1 MSN")
        );
    }

    #[test]
    fn what_is_missing_behind_a_word_is_one_mistake_and_a_name_that_begins_alike_comes_first() {
        assert_eq!(nearest("c14-16-get", KNOWN), Some("c14-016-get-protect-0"));
        assert_eq!(nearest("c14-61-get", KNOWN), Some("c14-016-get-protect-0"));
        assert_eq!(nearest("c14-016-set-protekt", KNOWN), Some("c14-016-set-protect-0"));
    }

    #[test]
    fn nothing_is_near_when_more_than_a_third_is_wrong() {
        for typed in ["c09-kindred", "", "xyz", "inspector-general"] {
            assert_eq!(nearest(typed, KNOWN), None, "{typed}");
        }
        assert_eq!(nearest("C99-1", ["C9-60", "C14-16"]), None);
        assert_eq!(nearest(&"c".repeat(100_000), KNOWN), None);
    }
}
