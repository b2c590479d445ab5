import type { ReactNode } from 'react';

/** Icons of 16 × 16, drawn with lines. They say nothing that the text beside them does not. */
function Icon({ children }: { readonly children: ReactNode }) {
  return (
    <svg
      viewBox="0 0 16 16"
      fill="none"
      stroke="currentColor"
      strokeWidth="1.5"
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden="true"
    >
      {children}
    </svg>
  );
}

export const Mark = () => (
  <Icon>
    <path d="M8 1.5 13.5 4v4c0 3.2-2.3 5.4-5.5 6.5C4.8 13.4 2.5 11.2 2.5 8V4z" />
    <circle cx="8" cy="7" r="1.6" />
    <path d="M8 8.6V11" />
  </Icon>
);

export const icons = {
  overview: (
    <Icon>
      <path d="M2 13.5h12M4 11V8M8 11V3M12 11V6" />
    </Icon>
  ),
  tokens: (
    <Icon>
      <rect x="2" y="3.5" width="12" height="9" rx="1.5" />
      <path d="M2 6.5h12M4.5 10h3" />
    </Icon>
  ),
  applications: (
    <Icon>
      <circle cx="5.5" cy="8" r="3" />
      <path d="M8.5 8H14M12 8v2.5" />
    </Icon>
  ),
  audit: (
    <Icon>
      <circle cx="8" cy="8" r="6" />
      <path d="M8 4.5V8l2.5 1.5" />
    </Icon>
  ),
  reactors: (
    <Icon>
      <path d="m5.5 5-3 3 3 3M10.5 5l3 3-3 3M9 3.5 7 12.5" />
    </Icon>
  ),
  operations: (
    <Icon>
      <path d="M2.5 4.5h11M2.5 11.5h11" />
      <circle cx="6" cy="4.5" r="1.7" />
      <circle cx="10" cy="11.5" r="1.7" />
    </Icon>
  ),
  tenant: (
    <Icon>
      <path d="M3 14V3.5L9 2v12M9 6h4v8M1.5 14h13M5.5 6h1M5.5 9h1" />
    </Icon>
  ),
} as const;
