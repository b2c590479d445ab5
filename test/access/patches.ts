/** Each of these patches would reveal the data if a caller that may not see it could make it. */
export const revealingPatches: readonly object[] = [
  { mask: '{{ data }}' },
  { search_indexes: ['{{ data.number }}'] },
  { fingerprint_expression: '{{ data.number }}{{ data.expiration_month }}' },
  { deduplicate_token: true },
  { containers: ['/open/'] },
];
