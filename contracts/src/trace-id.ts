/**
 * What `SVC-TRACE-ID` may be, as sources of regular expressions that nginx reads as well (deploy/nginx). The caller's value is stored and
 * logged, so one that could hold a card number is replaced: 13 or more digits, of which the first is 2 to 9, with at most one
 * other character between each two. Milliseconds since 1970 begin with 1.
 */
export const traceIdPatterns = {
  /** UUIDs, trace ids and `traceparent` of W3C Trace Context: their digits come by chance. */
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

/** Whether a caller's trace id is taken over (rules.md §1). */
export const isTraceId = (text: string): boolean =>
  acceptable.test(text) && (standard.some((each) => each.test(text)) || !cardNumber.test(text));
