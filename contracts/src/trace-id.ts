/**
 * The accepted values of `SVC-TRACE-ID`, as sources of regular expressions that nginx reads too (deploy/nginx). The value is stored and
 * logged, so a value that could contain a card number is replaced. Such a value has 13 or more digits, the first digit is 2 to 9, and at
 * most one other character stands between two digits. Milliseconds since 1970 begin with 1, so they are accepted.
 */
export const traceIdPatterns = {
  /** UUIDs, and trace ids and `traceparent` of W3C Trace Context: their digits are random. */
  standard: [
    '^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$',
    '^(?=.*[a-f])[0-9a-f]{32}$',
    '^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$',
  ],
  cardNumber: '[2-9]([^0-9A-Za-z]?[0-9]){12}',
  acceptable: '^[!-~]{1,128}$',
} as const;

const standard = traceIdPatterns.standard.map((source) => new RegExp(source));
const cardNumber = new RegExp(traceIdPatterns.cardNumber);
const acceptable = new RegExp(traceIdPatterns.acceptable);

/** Whether the text could contain a card number: it is then neither stored nor logged. */
export const holdsCardNumber = (text: string): boolean => cardNumber.test(text);

/** Whether the vault accepts the caller's trace id (rules.md §1). */
export const isTraceId = (text: string): boolean =>
  acceptable.test(text) && (standard.some((each) => each.test(text)) || !cardNumber.test(text));
