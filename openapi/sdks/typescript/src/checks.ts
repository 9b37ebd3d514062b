/** What options are checked by. */

/** Refuses an option without a meaning: a misspelt one would silently be the default. */
export function known(options: object, names: object): void {
  if (typeof options !== "object" || options === null) throw new TypeError(`options are an object, not ${options}`);
  const odd = Object.keys(options).find((option) => !Object.hasOwn(names, option));
  if (odd !== undefined) throw new TypeError(`no option is called ${odd}`);
}

/** The number, if it is one of milliseconds from `least`, which may be infinite. */
export function milliseconds(name: string, value: number, least: number): number {
  if (value >= least) return value;
  throw new RangeError(`${name} is a number of milliseconds from ${least}, not ${value}`);
}

/** The number, if it is a whole one in this range. */
export function whole(name: string, value: number, least: number, most: number): number {
  if (Number.isInteger(value) && value >= least && value <= most) return value;
  throw new RangeError(`${name} is a whole number from ${least} to ${most}, not ${value}`);
}
