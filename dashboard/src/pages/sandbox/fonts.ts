/** The fixed-width font where CSS classes do not reach: xterm.js and shadow roots. */
export const MONO_FONT =
  'ui-monospace, "SFMono-Regular", Menlo, Consolas, "DejaVu Sans Mono", monospace';
