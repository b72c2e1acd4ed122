//! Rules for the states of a queue pair, on golden records with one change each.

use verbatim_record::Entry;
use verbatim_record::verbs::{Command, Reply, pb};

use super::verbs::broken;

/// Returns the number of the first command and reply for which `is_it` is true.
fn find(entries: &[Entry], is_it: impl Fn(&Command, &Reply) -> bool) -> u32 {
    let asked = |number: u32| {
        entries.iter().find_map(|entry| match entry {
            Entry::VerbsAsked(asked) if asked.number == number => Some(&asked.command),
            _ => None,
        })
    };
    let found = entries.iter().find_map(|entry| match entry {
        Entry::VerbsAnswered(answered) => {
            let is_so = asked(answered.number).is_some_and(|command| is_it(command, &answered.reply));
            is_so.then_some(answered.number)
        }
        _ => None,
    });
    found.expect("a command and its reply")
}

/// Replaces the reply to the first command for which `is_it` is true. Returns the broken rules.
fn replied(record: &str, is_it: impl Fn(&Command, &Reply) -> bool, reply: &Reply) -> Vec<&'static str> {
    broken(record, |entries| {
        let number = find(entries, is_it);
        for entry in entries {
            match entry {
                Entry::VerbsAnswered(answered) if answered.number == number => answered.reply = reply.clone(),
                _ => {}
            }
        }
    })
}

fn done() -> Reply {
    Reply::Done(pb::Done {})
}

fn refused() -> Reply {
    Reply::Refused(pb::Refused {
        errno: 22,
        text: "no".into(),
    })
}

fn is_refused(reply: &Reply) -> bool {
    matches!(reply, Reply::Refused(_))
}

#[test]
fn only_existing_steps_are_accepted() {
    let names = replied(
        "c09-modify-steps",
        |command, reply| matches!(command, Command::ModifyQp(_)) && is_refused(reply),
        &done(),
    );
    assert!(names.contains(&"step-refused") && names.contains(&"state"), "{names:?}");
    let to_init = |command: &Command, reply: &Reply| matches!(command, Command::ModifyQp(modify) if modify.state() == pb::QpState::Init && !is_refused(reply));
    let names = replied("c09-modify-steps", to_init, &refused());
    assert!(names.contains(&"step-taken"), "{names:?}");
}

#[test]
fn query_returns_the_state_of_the_steps() {
    let status = Reply::Status(pb::QpStatus {
        state: pb::QpState::Rts.into(),
        ..pb::QpStatus::default()
    });
    let names = replied(
        "c09-modify-steps",
        |command, _| matches!(command, Command::QueryQp(_)),
        &status,
    );
    assert_eq!(names, ["state"]);
}

#[test]
fn work_is_accepted_in_the_right_states() {
    let early = |command: &Command, reply: &Reply| matches!(command, Command::PostSend(_)) && is_refused(reply);
    let names = replied("c09-modify-steps", early, &done());
    assert!(names.contains(&"work-refused"), "{names:?}");
    // The test also posts in ERR, with small wr_ids. In RTS its wr_ids begin at 100.
    let later = |command: &Command, reply: &Reply| {
        matches!(command, Command::PostSend(post) if post.wr_id >= 100) && !is_refused(reply)
    };
    let names = replied("c09-modify-steps", later, &refused());
    assert!(names.contains(&"work-taken"), "{names:?}");
}

#[test]
fn host_may_refuse_a_legal_step() {
    let to_init = |command: &Command, reply: &Reply| {
        let is_it = matches!(command, Command::ModifyQp(modify) if modify.state() == pb::QpState::Init);
        is_it && !is_refused(reply)
    };
    let send = |command: &Command, reply: &Reply| {
        matches!(command, Command::PostSend(post) if post.wr_id >= 100) && !is_refused(reply)
    };
    for (simulated, errno, is_broken) in [(true, 22, true), (true, 95, false), (false, 12, false)] {
        let refused = Reply::Refused(pb::Refused {
            errno,
            text: "no".into(),
        });
        for (rule, number_of) in [
            ("step-taken", to_init as fn(&Command, &Reply) -> bool),
            ("work-taken", send),
        ] {
            let names = broken("c09-modify-steps", |entries| {
                let number = find(entries, number_of);
                for entry in entries {
                    match entry {
                        Entry::Begin(begin) => {
                            begin.simulated = simulated;
                            // The record is of a device that implements verbs itself.
                            begin.parameters.retain(|(name, _)| name != "own_verbs");
                        }
                        Entry::VerbsAnswered(answered) if answered.number == number => answered.reply = refused.clone(),
                        _ => {}
                    }
                }
            });
            assert_eq!(
                names.contains(&rule),
                is_broken,
                "{rule}, simulated {simulated}, {errno}: {names:?}"
            );
        }
    }
}

#[test]
fn packet_in_error_state_is_found() {
    // Turn the second step to RTS into a step to ERR, so that later packets are sent in ERR.
    let names = broken("c09-reset-again", |entries| {
        let is_reset = |entry: &Entry| {
            matches!(entry, Entry::VerbsAsked(asked)
                if matches!(&asked.command, Command::ModifyQp(modify) if modify.state() == pb::QpState::Rts))
        };
        // The second step to RTS belongs to the connection after the first RESET, where both sides send requests.
        let at = (0..entries.len()).filter(|at| is_reset(&entries[*at])).nth(1);
        let at = at.expect("a second step to RTS");
        let Entry::VerbsAsked(asked) = &mut entries[at] else {
            return;
        };
        if let Command::ModifyQp(modify) = &mut asked.command {
            modify.state = pb::QpState::Err.into();
        }
    });
    assert!(names.contains(&"silent-state"), "{names:?}");
}
