// JSON as text: values by their positions, so that numbers keep their spelling and doubled names stay. JSON.parse would
// turn 2^53+1 into 2^53, 1E400 into Infinity, and keep only the last of two equal names.

export interface Node {
  kind: "object" | "array" | "string" | "number" | "word";
  start: number;
  end: number;
}

export interface Child {
  /** The name as it is spelled, in quotes; undefined in an array. */
  key?: string;
  value: Node;
}

function space(text: string, at: number): number {
  while (at < text.length && " \t\r\n".includes(text[at]!)) at++;
  return at;
}

function endOfString(text: string, at: number): number {
  for (at++; at < text.length; at++) {
    if (text[at] === "\\") at++;
    else if (text[at] === '"') return at + 1;
  }
  return text.length;
}

/** The value that begins here, blanks aside. The text must be valid JSON. */
export function node(text: string, at: number): Node {
  const start = space(text, at);
  const first = text[start] ?? "";
  if (first === '"') return { kind: "string", start, end: endOfString(text, start) };
  if (first === "{" || first === "[") {
    let depth = 0;
    let end = start;
    while (end < text.length) {
      const character = text[end]!;
      if (character === '"') {
        end = endOfString(text, end);
        continue;
      }
      if (character === "{" || character === "[") depth++;
      if (character === "}" || character === "]") depth--;
      end++;
      if (depth === 0) break;
    }
    return { kind: first === "{" ? "object" : "array", start, end };
  }
  let end = start;
  while (end < text.length && !",]} \t\r\n".includes(text[end]!)) end++;
  return { kind: /[-\d]/.test(first) ? "number" : "word", start, end };
}

/** What is directly in an object or an array. */
export function children(text: string, parent: Node): Child[] {
  const found: Child[] = [];
  let at = space(text, parent.start + 1);
  while (at < parent.end - 1) {
    let key: string | undefined;
    if (parent.kind === "object") {
      const end = endOfString(text, at);
      key = text.slice(at, end);
      at = space(text, end) + 1;
    }
    const value = node(text, at);
    found.push({ key, value });
    at = space(text, value.end);
    if (text[at] === ",") at = space(text, at + 1);
  }
  return found;
}

/** The text of a member of an object, as it is spelled. */
export function member(text: string, name: string): string | undefined {
  const found = children(text, node(text, 0)).find(({ key }) => key === JSON.stringify(name));
  return found && text.slice(found.value.start, found.value.end);
}

/** A string as it is spelled, but for characters that need no escape to be seen: \u674e is 李. */
export function readable(literal: string): string {
  return literal.replace(/(?:\\u[0-9a-f]{4})+|\\./gis, (escaped) => {
    if (escaped[1] !== "u") return escaped;
    return [...(JSON.parse(`"${escaped}"`) as string)].map((character) => (/[\p{C}\p{Z}"\\]/u.test(character) ? spelled(character) : character)).join("");
  });
}

function spelled(character: string): string {
  return character.split("").map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`).join("");
}

/** Whether it is JSON at all. */
export function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
