// Numbers, times and foreign text for people.

import { now } from "./api";
import { remembered } from "./store";

const numbers = new Intl.NumberFormat("en-US");

/** `local` or `utc`. */
export const zone = remembered("zone", "local");

export function count(value: number): string {
  return numbers.format(value);
}

/** 1 message, 2 messages. */
export function many(value: number, one: string, several = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : several}`;
}

export function bytes(value: number): string {
  if (value < 1024) return many(value, "byte");
  if (value < 1024 * 1024) return `${(value / 1024).toFixed(1)} KiB`;
  return `${(value / 1024 / 1024).toFixed(1)} MiB`;
}

const UNITS: [number, string][] = [
  [365 * 86_400_000, "y"],
  [86_400_000, "d"],
  [3_600_000, "h"],
  [60_000, "m"],
  [1000, "s"],
];

/** A duration in its two largest units: 850 ms, 12 s, 3m 20s, 2d 4h. */
export function duration(ms: number): string {
  const whole = Math.abs(Math.round(ms));
  if (whole < 1000) return `${whole} ms`;
  if (whole < 10_000) return `${Number((whole / 1000).toFixed(1))} s`;
  if (whole < 60_000) return `${Math.round(whole / 1000)} s`;
  const at = UNITS.findIndex(([unit]) => whole >= unit);
  const [unit, name] = UNITS[at]!;
  const [small, smallName] = UNITS[at + 1]!;
  const rest = Math.floor((whole % unit) / small);
  return `${Math.floor(whole / unit)}${name}${rest ? ` ${rest}${smallName}` : ""}`;
}

/** An instant as seen from now: in 3m 20s, 2h ago. */
export function relative(instant: string | number): string {
  const ms = new Date(instant).getTime() - now();
  if (Math.abs(ms) < 1000) return "now";
  // Without parts of a second, so that it does not flicker.
  const length = duration(Math.trunc(ms / 1000) * 1000);
  return ms > 0 ? `in ${length}` : `${length} ago`;
}

function pad(value: number, length = 2): string {
  return String(value).padStart(length, "0");
}

/** The machine's time zone by name. */
export const here = Intl.DateTimeFormat().resolvedOptions().timeZone;

const shortNames = new Intl.DateTimeFormat("en-US", { timeZoneName: "short" });

/** What the zone of the times that are shown is called at an instant: UTC, GMT+1, PST. */
function zoneAt(instant: Date | number | string): string {
  if (zone.value === "utc") return "UTC";
  return shortNames.formatToParts(new Date(instant)).find(({ type }) => type === "timeZoneName")!.value;
}

/** An instant to the millisecond, in UTC or here. */
export function exact(instant: string | number): string {
  return `${dayOf(instant)} ${clock(instant)}.${pad(new Date(instant).getMilliseconds(), 3)} ${zoneAt(instant)}`;
}

/** An instant to the minute. */
export function minute(instant: string | number): string {
  return `${dayOf(instant)} ${clock(instant).slice(0, 5)} ${zoneAt(instant)}`;
}

function dayOf(instant: string | number): string {
  const date = new Date(instant);
  if (zone.value === "utc") return date.toISOString().slice(0, 10);
  return `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())}`;
}

/** The time of day with its zone. */
export function zonedClock(instant: number): string {
  return `${clock(instant)} ${zoneAt(instant)}`;
}

export function clock(instant: Date | number | string): string {
  const date = new Date(instant);
  if (zone.value === "utc") return date.toISOString().slice(11, 19);
  return `${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`;
}

/** `2026-11-25 09:30`, in a time zone by name. */
export function inZone(instant: number, timeZone: string): string {
  const format = new Intl.DateTimeFormat("en-CA", {
    timeZone,
    weekday: "short",
    year: "numeric",
    month: "2-digit",
    day: "2-digit",
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
    hourCycle: "h23",
  });
  const part = Object.fromEntries(format.formatToParts(instant).map(({ type, value }) => [type, value]));
  const seconds = part.second === "00" ? "" : `:${part.second}`;
  return `${part.weekday} ${part.year}-${part.month}-${part.day} ${part.hour}:${part.minute}${seconds}`;
}

/** An id as short as it stays telling. */
export function shortId(id: string): string {
  return id.length === 36 ? `${id.slice(0, 13)}…${id.slice(-6)}` : id;
}

/** Characters that would not be seen, or would turn the text around them: controls, bidi controls, zero widths. */
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

export function mark(character: string): string {
  return `U+${character.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")}`;
}

/** Foreign text in pieces: even ones as they are, odd ones single characters that must be shown as marks. */
export function pieces(text: string): string[] {
  return text.split(new RegExp(`(${HIDDEN.source})`, "g"));
}

/** Foreign text where only a string can stand, such as a tooltip. */
export function plain(text: string): string {
  return text.replace(HIDDEN, (character) => `⟨${mark(character)}⟩`);
}

/** A duration as people write it: 90s, 10m, 2h 30m, 1.5d, 500ms; a bare number is seconds. Null for anything else. */
export function parseDuration(text: string): number | null {
  const units: Record<string, number> = { ms: 1, s: 1000, m: 60_000, min: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };
  const trimmed = text.trim();
  if (/^\d+(\.\d+)?$/.test(trimmed)) return Math.round(Number(trimmed) * 1000);
  if (!/^(\d+(\.\d+)?\s*(ms|s|min|m|h|d|w)\s*)+$/.test(trimmed)) return null;
  let sum = 0;
  for (const [, value, , unit] of trimmed.matchAll(/(\d+(\.\d+)?)\s*(ms|s|min|m|h|d|w)/g)) sum += Number(value) * units[unit!]!;
  return Math.round(sum);
}
