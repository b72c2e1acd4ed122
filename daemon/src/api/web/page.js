"use strict";
// Data from the daemon is inserted as text, never as markup, because names and reasons come from other users.

const EVERY_MS = 2000;
// Outcomes have the classes of a report; states of rigs and runs use the same colors.
const TONE = { IDLE: "o-PASS", QUARANTINED: "o-FAIL", UNREACHABLE: "o-INCONCLUSIVE", DRAINING: "o-INCONCLUSIVE" };
const BASE = document.documentElement.dataset.base;
let older = [];
let next = "";

const bare = (name) => name.slice(name.indexOf("/") + 1);
const tone = (word) => TONE[word] ?? "o-" + word;

function cell(...children) {
  const td = document.createElement("td");
  td.append(...children);
  return td;
}

function span(text, tone) {
  const span = document.createElement("span");
  if (tone) span.className = tone;
  span.textContent = text;
  return span;
}

function named(...children) {
  const td = cell(...children);
  td.className = "name";
  return td;
}

// A cell whose words stay on one line, unless the screen is narrow.
function short(text) {
  const td = cell(text);
  td.className = "short";
  return td;
}

function link(run) {
  const a = document.createElement("a");
  a.href = BASE + "runs/" + encodeURIComponent(bare(run));
  a.textContent = bare(run);
  return a;
}

// On a narrow screen, each cell has the head of its column.
function fill(id, rows, none) {
  const body = document.getElementById(id);
  const heads = [...body.parentElement.querySelectorAll("thead th")].map((th) => th.textContent);
  if (rows.length === 0) {
    const td = cell(none);
    td.colSpan = Math.max(heads.length, 1);
    td.className = "none";
    rows = [[td]];
  }
  body.replaceChildren(...rows.map((cells) => {
    const tr = document.createElement("tr");
    cells.forEach((td, column) => { if (td.className !== "none" && td.textContent) td.dataset.head = heads[column] ?? ""; });
    tr.append(...cells);
    return tr;
  }));
}

// Shortens a time of RFC 3339 to seconds. It stays in UTC, as in the reports.
function time(text) {
  return text ? text.slice(0, 19) + "Z" : "";
}

function duration(from, until) {
  const seconds = Math.max(0, Math.round((until - from) / 1000));
  return seconds < 120 ? `${seconds} s` : `${Math.round(seconds / 60)} min`;
}

function took(run) {
  if (!run.start_time) return "";
  return duration(Date.parse(run.start_time), run.end_time ? Date.parse(run.end_time) : Date.now());
}

function counted(counts) {
  const order = ["ERROR", "FAIL", "INCONCLUSIVE", "PASS", "NOT_APPLICABLE", "SKIPPED"].filter((of) => counts[of]);
  return order.flatMap((of, place) => [place ? ", " : "", span(`${counts[of]} ${of}`, tone(of))]);
}

function rigRow(rig) {
  const state = [span(rig.state, tone(rig.state))];
  if (rig.state_reason) state.push(span(rig.state_reason, "note"));
  for (const area of rig.pending_restore) state.push(span("to be restored: " + area, "note"));
  const name = rig.host ? `${bare(rig.name)} (${rig.host})` : bare(rig.name);
  const run = rig.current_run ? [link(rig.current_run)] : [];
  const device = cell(rig.device || rig.kind);
  device.className = "device";
  const labels = rig.labels.filter((label) => !label.startsWith("kind="));
  if (labels.length) device.append(span("labels: " + labels.join(", "), "note"));
  return [named(name), cell(...state), device, cell(rig.holder_name), named(...run), cell(rig.queue.length ? String(rig.queue.length) : "")];
}

function waits(lease) {
  if (!lease.waiting) return [];
  return [`place ${lease.waiting.place}`, ...lease.waiting.because.map((because) => span(because, "note"))];
}

function leaseRow(lease) {
  return [named(lease.rig || lease.candidates.join(", ")), short(lease.state), cell(lease.owner_name), short(time(lease.expire_time)), cell(...waits(lease))];
}

function runRow(run) {
  const word = run.state === "ENDED" ? run.outcome : run.state;
  const state = [span(word, tone(word))];
  if (run.queue_place) state.push(span(`place ${run.queue_place}`, "note"));
  if (run.reason) state.push(span(run.reason, "note"));
  const counts = counted(run.counts);
  const tests = counts.length ? counts : [`${run.test_count} ${run.test_count === 1 ? "test" : "tests"}`];
  return [named(link(run.name)), cell(...state), short(run.spec?.rig ?? ""), cell(...tests), short(run.owner_name), short(time(run.create_time)), short(took(run))];
}

async function ask(what) {
  const answer = await fetch(BASE + "api/" + what, { cache: "no-store" });
  if (!answer.ok) throw new Error((await answer.text()).trim() || answer.statusText);
  return answer.json();
}

async function showAll() {
  const [rigs, leases, runs] = await Promise.all([ask("rigs"), ask("leases"), ask("runs")]);
  fill("rigs", rigs.rigs.map(rigRow), "No rig that this page may show.");
  fill("leases", leases.leases.map(leaseRow), "No lease holds a rig or waits for one.");
  const newest = new Set(runs.runs.map((run) => run.name));
  older = older.filter((run) => !newest.has(run.name));
  if (older.length === 0) next = runs.next_page_token;
  fill("runs", [...runs.runs, ...older].map(runRow), "No runs yet: verbatim run --rig RIG");
  document.getElementById("more").hidden = next === "";
}

async function showRun() {
  const run = await ask("runs/" + location.pathname.split("/").pop());
  if (run.state === "ENDED") {
    location.reload(); // The daemon now has a report at this address.
    return;
  }
  const rig = run.spec?.rig ?? "";
  document.title = `${run.state} on ${rig} - Verbatim`;
  document.getElementById("title").replaceChildren(span(run.state, tone(run.state)), ` on ${rig}`);
  const [done, all] = [run.verdicts.length, run.test_count];
  const bar = document.getElementById("progress");
  bar.hidden = run.state !== "RUNNING";
  bar.max = Math.max(all, 1);
  bar.value = done;
  const text = run.state === "RUNNING" ? [`${done} of ${all} tests in ${took(run)}`] : [`${all} ${all === 1 ? "test" : "tests"}, not yet begun`];
  if (done) text.push(": ", ...counted(run.counts));
  document.getElementById("progress-text").replaceChildren(...text);
  const facts = [["Run", bare(run.name)], ["Owner", run.owner_name], ["Created", time(run.create_time)], ["Began", time(run.start_time)], ["Seed", String(run.spec?.seed ?? "")]];
  const rows = facts.filter(([, value]) => value).map(([name, value]) => [span(name, "head"), value]);
  if (run.state === "QUEUED") {
    const leases = (await ask("leases")).leases;
    const lease = leases.find((lease) => lease.run === run.name || lease.name === run.lease);
    if (lease?.waiting) rows.push([span("Waits", "head"), ...waits(lease)]);
  }
  fill("facts", rows.map(([head, ...value]) => [cell(head), cell(...value)]), "");
  const ended = [...run.verdicts].reverse();
  fill("tests", ended.map((of) => [named(of.test), cell(span(of.outcome, tone(of.outcome))), cell(of.reason)]), "None yet.");
}

async function show() {
  const live = document.getElementById("live");
  try {
    await (document.getElementById("facts") ? showRun() : showAll());
    live.className = "";
    live.textContent = "live";
  } catch (error) {
    live.className = "lost";
    live.textContent = `the daemon does not answer: ${error.message}`;
  }
}

async function more() {
  const runs = await ask("runs?page_token=" + next);
  older.push(...runs.runs);
  next = runs.next_page_token;
  await show();
}

async function live() {
  for (;;) {
    if (!document.hidden) await show();
    await new Promise((resolve) => setTimeout(resolve, EVERY_MS));
  }
}

document.getElementById("more")?.addEventListener("click", more);
live();
