// Light, dark, or what the system wants.

import { remembered } from "./store";

/** `light`, `dark`, or `system`. */
export const theme = remembered("theme", "system");

const dark = matchMedia("(prefers-color-scheme: dark)");

export function isDark(): boolean {
  return theme.value === "dark" || (theme.value === "system" && dark.matches);
}

function apply(): void {
  document.documentElement.dataset.theme = isDark() ? "dark" : "light";
}

export function switchTheme(): void {
  theme.set(isDark() ? "light" : "dark");
}

export function startTheme(): void {
  apply();
  theme.follow(apply);
  dark.addEventListener("change", apply);
}
