export type { Grants, Principal, TenantContext } from './principal.ts';
export { can, decideTokenAccess, refusalText, shownBy, type AccessibleToken } from './decide.ts';
export { tokenVisibility, type TokenVisibility, type VisibilityClause } from './visibility.ts';
export { searchableData, type SearchableData } from './search-data.ts';
export { checkGrants, checkSessionGrants } from './grants.ts';
export { seesEverything, seesMoreAfterMove } from './exposure.ts';
export { lesserOf } from './transforms.ts';
export type { TokenAccess } from './token-access.ts';
