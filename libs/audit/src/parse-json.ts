/** Undefined for a text that is not JSON: a writer that bypasses the vault may store any bytes. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}
