/* Vector instructions with a mask, which access only the elements that it selects. */
#include "recorder.h"

/* The size of an element, where we know it. Of other masked instructions nothing is recorded: an
 * access too few is better than one that never happened. */
static uint
element_size(int opcode)
{
    switch (opcode) {
    case OP_vmovdqu8:
    case OP_vpcmpb:
    case OP_vpcmpub: return 1;
    case OP_vmovdqu16:
    case OP_vpcmpw:
    case OP_vpcmpuw: return 2;
    case OP_vmovdqu32:
    case OP_vmovdqa32:
    case OP_vmovups:
    case OP_vmovaps:
    case OP_vpcmpd:
    case OP_vpcmpud:
    case OP_vmaskmovps:
    case OP_vpmaskmovd: return 4;
    case OP_vmovdqu64:
    case OP_vmovdqa64:
    case OP_vmovupd:
    case OP_vmovapd:
    case OP_vpcmpq:
    case OP_vpcmpuq:
    case OP_vmaskmovpd:
    case OP_vpmaskmovq: return 8;
    default: return 0;
    }
}

static bool
has_vector_mask(int opcode)
{
    return opcode == OP_vmaskmovps || opcode == OP_vmaskmovpd || opcode == OP_vpmaskmovd ||
        opcode == OP_vpmaskmovq;
}

/* The mask is the first source, but the second where a vector register masks a store. */
static reg_id_t
mask_of(instr_t *app)
{
    int which = has_vector_mask(instr_get_opcode(app)) && instr_writes_memory(app) ? 1 : 0;
    if (instr_num_srcs(app) <= which || !opnd_is_reg(instr_get_src(app, which)))
        return DR_REG_NULL;
    return opnd_get_reg(instr_get_src(app, which));
}

bool
is_masked(instr_t *app)
{
    int opcode = instr_get_opcode(app);
    reg_id_t mask = mask_of(app);
    /* k0 stands for no mask. */
    return has_vector_mask(opcode) || opcode == OP_maskmovdqu || opcode == OP_vmaskmovdqu ||
        opcode == OP_maskmovq ||
        (mask >= DR_REG_K1 && mask <= DR_REG_K7 && !instr_is_opmask(app));
}

static uint64_t
selected(const dr_mcontext_t *mc, reg_id_t mask, uint element, uint count)
{
    if (mask >= DR_REG_K0 && mask <= DR_REG_K7)
        return mc->opmask[mask - DR_REG_K0];
    /* In a vector register the top bit of each element counts. */
    uint number = reg_is_strictly_ymm(mask) ? mask - DR_REG_YMM0 : mask - DR_REG_XMM0;
    const uint8_t *bytes = (const uint8_t *)&mc->simd[number];
    uint64_t bits = 0;
    for (uint i = 0; i < count; i++)
        bits |= (uint64_t)(bytes[i * element + element - 1] >> 7) << i;
    return bits;
}

/* Records each run of selected elements. `how` has the kind, the element's size, their number and
 * the register with the mask, a byte or two each. */
static void
masked(uint64_t address, uint64_t site, uint64_t how)
{
    uint32_t kind = how & 0xff;
    uint element = how >> 8 & 0xff, count = how >> 16 & 0xff;
    dr_mcontext_t mc = { .size = sizeof mc, .flags = DR_MC_MULTIMEDIA };
    dr_get_mcontext(dr_get_current_drcontext(), &mc);
    uint64_t bits = selected(&mc, (reg_id_t)(how >> 24), element, count);
    for (uint first = 0; first < count;) {
        uint length = 0;
        while (first + length < count && (bits >> (first + length) & 1) != 0)
            length++;
        if (length > 0)
            record_access(kind, (uint32_t)site, address + first * element, length * element);
        first += length + 1;
    }
}

void
instrument_masked(void *drcontext, instrlist_t *list, instr_t *where)
{
    uint element = element_size(instr_get_opcode(where));
    uint32_t kind = WIRE_READ;
    opnd_t memory = opnd_create_null();
    for (int i = 0; i < instr_num_srcs(where); i++) {
        if (opnd_is_memory_reference(instr_get_src(where, i)))
            memory = instr_get_src(where, i);
    }
    for (int i = 0; i < instr_num_dsts(where); i++) {
        if (opnd_is_memory_reference(instr_get_dst(where, i))) {
            memory = instr_get_dst(where, i);
            kind = WIRE_WRITE;
        }
    }
    if (element == 0 || opnd_is_null(memory))
        return;
    uint count = opnd_size_in_bytes(opnd_get_size(memory)) / element;
    reg_id_t address;
    if (drreg_reserve_register(drcontext, list, where, NULL, &address) != DRREG_SUCCESS)
        return;
    if (insert_address(drcontext, list, where, memory, address)) {
        uint64_t how = kind | element << 8 | count << 16 | (uint64_t)mask_of(where) << 24;
        dr_insert_clean_call_ex(drcontext, list, where, (void *)masked,
                                DR_CLEANCALL_ALWAYS_OUT_OF_LINE, 3, opnd_create_reg(address),
                                OPND_CREATE_INT32(site_of(instr_get_app_pc(where))),
                                OPND_CREATE_INTPTR(how));
    }
    drreg_unreserve_register(drcontext, list, where, address);
}
