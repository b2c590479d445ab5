export function performCrypto(_text: string): string {
  return '{}';
}
