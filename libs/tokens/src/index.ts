export { cvcEndOf, mayHoldCvc, openLastingData, openToken, shownCvcEndOf } from './opening.ts';
export { presentToken, transformData, type TokenDetails } from './present.ts';
export { resealToken, sealNewToken } from './sealing.ts';
export { lastingPart } from './sealed-apart.ts';
export { fieldsOfShape } from './types/data-shapes.ts';
export { typeDefaults } from './types/defaults.ts';
export { DataTooLargeError, validateData } from './types/validate-data.ts';
