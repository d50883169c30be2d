/** The mark of the product. */
export function Logo({ size = 22 }: { size?: number }) {
  return (
    <svg width={size} height={size} viewBox="0 0 32 32" aria-hidden="true" className="shrink-0">
      <rect width="32" height="32" rx="8" className="fill-accent" />
      <path
        d="M8 11h16M8 16h16M8 21h10"
        className="stroke-accent-ink"
        strokeWidth="3"
        strokeLinecap="round"
      />
    </svg>
  );
}
