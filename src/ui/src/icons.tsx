// Icons as lines of one weight, in the colour of the text around them.

const paths: Record<string, string> = {
  overview: "M3 12l4-5 4 3 6-7M3 17h14",
  topics: "M4 5h12M4 10h12M4 15h8",
  dead: "M6 6l8 8M14 6l-8 8M10 2.5a7.5 7.5 0 1 1 0 15 7.5 7.5 0 0 1 0-15",
  callbacks: "M4 10h11M11 6l4 4-4 4M4 4v12",
  schedules: "M10 5.5V10l3 2M10 2.5a7.5 7.5 0 1 1 0 15 7.5 7.5 0 0 1 0-15",
  publish: "M3 10l14-6-5 13-3-5zM9 12l8-8",
  instances: "M3.5 4.5h13v4h-13zM3.5 11.5h13v4h-13zM6.5 6.5h0M6.5 13.5h0",
  search: "M9 3.5a5.5 5.5 0 1 1 0 11 5.5 5.5 0 0 1 0-11M13 13l4 4",
  dots: "M5 10h0M10 10h0M15 10h0",
  pause: "M7 5v10M13 5v10",
  play: "M6 4.5l9 5.5-9 5.5z",
  redrive: "M4 10a6 6 0 1 1 2 4.5M4 15v-4h4",
  trash: "M4 6h12M8 6V4h4v2M5.5 6l1 10h7l1-10",
  sun: "M10 6.5a3.5 3.5 0 1 1 0 7 3.5 3.5 0 0 1 0-7M10 2v1.5M10 16.5V18M2 10h1.5M16.5 10H18M4.3 4.3l1 1M14.7 14.7l1 1M4.3 15.7l1-1M14.7 5.3l1-1",
  moon: "M16.5 12A7 7 0 0 1 8 3.5a7 7 0 1 0 8.5 8.5z",
  help: "M7.5 7.5a2.5 2.5 0 1 1 3.5 2.3c-.7.3-1 .8-1 1.7M10 14.5h0M10 2.5a7.5 7.5 0 1 1 0 15 7.5 7.5 0 0 1 0-15",
  copy: "M7 7h9v9H7zM13 4H4v9",
  download: "M10 3v9M6 9l4 4 4-4M4 16.5h12",
  edit: "M4 16l1-4 8-8 3 3-8 8z",
  close: "M5 5l10 10M15 5L5 15",
  check: "M4 10.5l4 4 8-9",
  refresh: "M16 10a6 6 0 1 1-2-4.5M16 4v4h-4",
  logout: "M8 4H4v12h4M8 10h9M14 7l3 3-3 3",
  warning: "M10 3l8 14H2zM10 8v4M10 14.5h0",
  lock: "M5 9h10v8H5zM7 9V6.5a3 3 0 0 1 6 0V9",
  chevron: "M7 5l5 5-5 5",
};

export function Icon({ name, size = 18 }: { name: string; size?: number }) {
  return (
    <svg class={`icon i-${name}`} width={size} height={size} viewBox="0 0 20 20" aria-hidden="true" focusable="false">
      <path d={paths[name] ?? ""} />
    </svg>
  );
}
