const tokenId = /^[^#/\\+?[\]|&=%<>{}^]{3,400}$/u;

/** Whether a text may be a token's id: 3–400 characters, none of `# / \ + ? [ ] | & = % < > { } ^` (rules.md §3). */
export function isTokenId(text: string): boolean {
  return tokenId.test(text);
}
