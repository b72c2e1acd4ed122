/*
 * The field oracle: reads and writes the fields of an attribute with libibmad.
 *
 * Reads lines from stdin, and prints one response for each line:
 *
 *   D ATTRIBUTE HEX
 *       decodes. Prints a line "ENUM_NAME field name=0xVALUE" for each field of
 *       the attribute that libibmad knows, then an empty line. Fields wider than
 *       64 bits are plain hex bytes. Missing bytes of HEX are zero.
 *   E ATTRIBUTE [base=HEX] FIELD=VALUE...
 *       encodes into zeroes, or into base, and prints all bytes as hex. FIELD is
 *       the enum name or libibmad's field name; VALUE is 0x… or decimal, or hex
 *       bytes for a wide field.
 *   L   lists the attributes, each with its length in bytes, then an empty line.
 *
 * An attribute is the data of a MAD (from byte 64 of the MAD); "mad" and "samad"
 * are whole MADs. The response to an invalid line is "error: …".
 *
 * Link with -libmad.
 */
#include <errno.h>
#include <infiniband/mad.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The form in which mad_encode_field takes a value: up to 32 bits, 64 bits, or bytes. */
#define UP_TO_32 0
#define U64 8
#define ARRAY(bytes) (bytes)

struct field {
	enum MAD_FIELDS id;
	const char *name;
	unsigned kind;
};

#define F(id, kind) { id, #id, kind }

static const struct field mad[] = {
	F(IB_MAD_METHOD_F, UP_TO_32),
	F(IB_MAD_RESPONSE_F, UP_TO_32),
	F(IB_MAD_CLASSVER_F, UP_TO_32),
	F(IB_MAD_MGMTCLASS_F, UP_TO_32),
	F(IB_MAD_BASEVER_F, UP_TO_32),
	F(IB_MAD_STATUS_F, UP_TO_32),
	F(IB_DRSMP_HOPCNT_F, UP_TO_32),
	F(IB_DRSMP_HOPPTR_F, UP_TO_32),
	F(IB_DRSMP_STATUS_F, UP_TO_32),
	F(IB_DRSMP_DIRECTION_F, UP_TO_32),
	F(IB_MAD_TRID_F, U64),
	F(IB_MAD_ATTRID_F, UP_TO_32),
	F(IB_MAD_ATTRMOD_F, UP_TO_32),
	F(IB_MAD_MKEY_F, U64),
	F(IB_DRSMP_DRDLID_F, UP_TO_32),
	F(IB_DRSMP_DRSLID_F, UP_TO_32),
	F(IB_GS_DATA_F, ARRAY(192)),
	F(IB_DRSMP_PATH_F, ARRAY(64)),
	F(IB_DRSMP_RPATH_F, ARRAY(64)),
};

static const struct field samad[] = {
	F(IB_SA_RMPP_VERS_F, UP_TO_32),
	F(IB_SA_RMPP_TYPE_F, UP_TO_32),
	F(IB_SA_RMPP_RESP_F, UP_TO_32),
	F(IB_SA_RMPP_FLAGS_F, UP_TO_32),
	F(IB_SA_RMPP_STATUS_F, UP_TO_32),
	F(IB_SA_RMPP_D1_F, UP_TO_32),
	F(IB_SA_RMPP_D2_F, UP_TO_32),
	F(IB_SA_MKEY_F, U64),
	F(IB_SA_ATTROFFS_F, UP_TO_32),
	F(IB_SA_COMPMASK_F, U64),
	F(IB_SA_DATA_F, ARRAY(200)),
};

static const struct field nodedesc[] = {
	F(IB_NODE_DESC_F, ARRAY(64)),
};

static const struct field nodeinfo[] = {
	F(IB_NODE_BASE_VERS_F, UP_TO_32),
	F(IB_NODE_CLASS_VERS_F, UP_TO_32),
	F(IB_NODE_TYPE_F, UP_TO_32),
	F(IB_NODE_NPORTS_F, UP_TO_32),
	F(IB_NODE_SYSTEM_GUID_F, U64),
	F(IB_NODE_GUID_F, U64),
	F(IB_NODE_PORT_GUID_F, U64),
	F(IB_NODE_PARTITION_CAP_F, UP_TO_32),
	F(IB_NODE_DEVID_F, UP_TO_32),
	F(IB_NODE_REVISION_F, UP_TO_32),
	F(IB_NODE_LOCAL_PORT_F, UP_TO_32),
	F(IB_NODE_VENDORID_F, UP_TO_32),
};

static const struct field switchinfo[] = {
	F(IB_SW_LINEAR_FDB_CAP_F, UP_TO_32),
	F(IB_SW_RANDOM_FDB_CAP_F, UP_TO_32),
	F(IB_SW_MCAST_FDB_CAP_F, UP_TO_32),
	F(IB_SW_LINEAR_FDB_TOP_F, UP_TO_32),
	F(IB_SW_DEF_PORT_F, UP_TO_32),
	F(IB_SW_DEF_MCAST_PRIM_F, UP_TO_32),
	F(IB_SW_DEF_MCAST_NOT_PRIM_F, UP_TO_32),
	F(IB_SW_LIFE_TIME_F, UP_TO_32),
	F(IB_SW_STATE_CHANGE_F, UP_TO_32),
	F(IB_SW_OPT_SLTOVL_MAPPING_F, UP_TO_32),
	F(IB_SW_LIDS_PER_PORT_F, UP_TO_32),
	F(IB_SW_PARTITION_ENFORCE_CAP_F, UP_TO_32),
	F(IB_SW_PARTITION_ENF_INB_F, UP_TO_32),
	F(IB_SW_PARTITION_ENF_OUTB_F, UP_TO_32),
	F(IB_SW_FILTER_RAW_INB_F, UP_TO_32),
	F(IB_SW_FILTER_RAW_OUTB_F, UP_TO_32),
	F(IB_SW_ENHANCED_PORT0_F, UP_TO_32),
	F(IB_SW_MCAST_FDB_TOP_F, UP_TO_32),
};

static const struct field guidinfo[] = {
	F(IB_GI_GUID0_F, U64),
	F(IB_GI_GUID1_F, U64),
	F(IB_GI_GUID2_F, U64),
	F(IB_GI_GUID3_F, U64),
	F(IB_GI_GUID4_F, U64),
	F(IB_GI_GUID5_F, U64),
	F(IB_GI_GUID6_F, U64),
	F(IB_GI_GUID7_F, U64),
};

static const struct field portinfo[] = {
	F(IB_PORT_MKEY_F, U64),
	F(IB_PORT_GID_PREFIX_F, U64),
	F(IB_PORT_LID_F, UP_TO_32),
	F(IB_PORT_SMLID_F, UP_TO_32),
	F(IB_PORT_CAPMASK_F, UP_TO_32),
	F(IB_PORT_DIAG_F, UP_TO_32),
	F(IB_PORT_MKEY_LEASE_F, UP_TO_32),
	F(IB_PORT_LOCAL_PORT_F, UP_TO_32),
	F(IB_PORT_LINK_WIDTH_ENABLED_F, UP_TO_32),
	F(IB_PORT_LINK_WIDTH_SUPPORTED_F, UP_TO_32),
	F(IB_PORT_LINK_WIDTH_ACTIVE_F, UP_TO_32),
	F(IB_PORT_LINK_SPEED_SUPPORTED_F, UP_TO_32),
	F(IB_PORT_STATE_F, UP_TO_32),
	F(IB_PORT_PHYS_STATE_F, UP_TO_32),
	F(IB_PORT_LINK_DOWN_DEF_F, UP_TO_32),
	F(IB_PORT_MKEY_PROT_BITS_F, UP_TO_32),
	F(IB_PORT_LMC_F, UP_TO_32),
	F(IB_PORT_LINK_SPEED_ACTIVE_F, UP_TO_32),
	F(IB_PORT_LINK_SPEED_ENABLED_F, UP_TO_32),
	F(IB_PORT_NEIGHBOR_MTU_F, UP_TO_32),
	F(IB_PORT_SMSL_F, UP_TO_32),
	F(IB_PORT_VL_CAP_F, UP_TO_32),
	F(IB_PORT_INIT_TYPE_F, UP_TO_32),
	F(IB_PORT_VL_HIGH_LIMIT_F, UP_TO_32),
	F(IB_PORT_VL_ARBITRATION_HIGH_CAP_F, UP_TO_32),
	F(IB_PORT_VL_ARBITRATION_LOW_CAP_F, UP_TO_32),
	F(IB_PORT_INIT_TYPE_REPLY_F, UP_TO_32),
	F(IB_PORT_MTU_CAP_F, UP_TO_32),
	F(IB_PORT_VL_STALL_COUNT_F, UP_TO_32),
	F(IB_PORT_HOQ_LIFE_F, UP_TO_32),
	F(IB_PORT_OPER_VLS_F, UP_TO_32),
	F(IB_PORT_PART_EN_INB_F, UP_TO_32),
	F(IB_PORT_PART_EN_OUTB_F, UP_TO_32),
	F(IB_PORT_FILTER_RAW_INB_F, UP_TO_32),
	F(IB_PORT_FILTER_RAW_OUTB_F, UP_TO_32),
	F(IB_PORT_MKEY_VIOL_F, UP_TO_32),
	F(IB_PORT_PKEY_VIOL_F, UP_TO_32),
	F(IB_PORT_QKEY_VIOL_F, UP_TO_32),
	F(IB_PORT_GUID_CAP_F, UP_TO_32),
	F(IB_PORT_CLIENT_REREG_F, UP_TO_32),
	F(IB_PORT_MCAST_PKEY_SUPR_ENAB_F, UP_TO_32),
	F(IB_PORT_SUBN_TIMEOUT_F, UP_TO_32),
	F(IB_PORT_RESP_TIME_VAL_F, UP_TO_32),
	F(IB_PORT_LOCAL_PHYS_ERR_F, UP_TO_32),
	F(IB_PORT_OVERRUN_ERR_F, UP_TO_32),
	F(IB_PORT_MAX_CREDIT_HINT_F, UP_TO_32),
	F(IB_PORT_LINK_ROUND_TRIP_F, UP_TO_32),
	F(IB_PORT_CAPMASK2_F, UP_TO_32),
	F(IB_PORT_LINK_SPEED_EXT_ACTIVE_F, UP_TO_32),
	F(IB_PORT_LINK_SPEED_EXT_SUPPORTED_F, UP_TO_32),
	F(IB_PORT_LINK_SPEED_EXT_ENABLED_F, UP_TO_32),
};

static const struct field slvl[] = {
	F(IB_SLTOVL_MAPPING_TABLE_F, U64),
};

static const struct field vlarb[] = {
	F(IB_VL_ARBITRATION_TABLE_F, ARRAY(64)),
};

static const struct field linearforwardingtable[] = {
	F(IB_LINEAR_FORW_TBL_F, ARRAY(64)),
};

static const struct field multicastforwardingtable[] = {
	F(IB_MULTICAST_FORW_TBL_F, ARRAY(64)),
};

static const struct field sminfo[] = {
	F(IB_SMINFO_GUID_F, U64),
	F(IB_SMINFO_KEY_F, U64),
	F(IB_SMINFO_ACT_F, UP_TO_32),
	F(IB_SMINFO_PRIO_F, UP_TO_32),
	F(IB_SMINFO_STATE_F, UP_TO_32),
};

static const struct field notice[] = {
	F(IB_NOTICE_IS_GENERIC_F, UP_TO_32),
	F(IB_NOTICE_TYPE_F, UP_TO_32),
	F(IB_NOTICE_PRODUCER_F, UP_TO_32),
	F(IB_NOTICE_TRAP_NUMBER_F, UP_TO_32),
	F(IB_NOTICE_ISSUER_LID_F, UP_TO_32),
	F(IB_NOTICE_TOGGLE_F, UP_TO_32),
	F(IB_NOTICE_COUNT_F, UP_TO_32),
	F(IB_NOTICE_DATA_DETAILS_F, ARRAY(54)),
	F(IB_NOTICE_DATA_LID_F, UP_TO_32),
	F(IB_NOTICE_DATA_144_LID_F, UP_TO_32),
	F(IB_NOTICE_DATA_144_CAPMASK_F, UP_TO_32),
};

static const struct field classportinfo[] = {
	F(IB_CPI_BASEVER_F, UP_TO_32),
	F(IB_CPI_CLASSVER_F, UP_TO_32),
	F(IB_CPI_CAPMASK_F, UP_TO_32),
	F(IB_CPI_CAPMASK2_F, UP_TO_32),
	F(IB_CPI_RESP_TIME_VALUE_F, UP_TO_32),
	F(IB_CPI_REDIRECT_GID_F, ARRAY(16)),
	F(IB_CPI_REDIRECT_TC_F, UP_TO_32),
	F(IB_CPI_REDIRECT_SL_F, UP_TO_32),
	F(IB_CPI_REDIRECT_FL_F, UP_TO_32),
	F(IB_CPI_REDIRECT_LID_F, UP_TO_32),
	F(IB_CPI_REDIRECT_PKEY_F, UP_TO_32),
	F(IB_CPI_REDIRECT_QP_F, UP_TO_32),
	F(IB_CPI_REDIRECT_QKEY_F, UP_TO_32),
	F(IB_CPI_TRAP_GID_F, ARRAY(16)),
	F(IB_CPI_TRAP_TC_F, UP_TO_32),
	F(IB_CPI_TRAP_SL_F, UP_TO_32),
	F(IB_CPI_TRAP_FL_F, UP_TO_32),
	F(IB_CPI_TRAP_LID_F, UP_TO_32),
	F(IB_CPI_TRAP_PKEY_F, UP_TO_32),
	F(IB_CPI_TRAP_HL_F, UP_TO_32),
	F(IB_CPI_TRAP_QP_F, UP_TO_32),
	F(IB_CPI_TRAP_QKEY_F, UP_TO_32),
};

static const struct field portcounters[] = {
	F(IB_PC_PORT_SELECT_F, UP_TO_32),
	F(IB_PC_COUNTER_SELECT_F, UP_TO_32),
	F(IB_PC_ERR_SYM_F, UP_TO_32),
	F(IB_PC_LINK_RECOVERS_F, UP_TO_32),
	F(IB_PC_LINK_DOWNED_F, UP_TO_32),
	F(IB_PC_ERR_RCV_F, UP_TO_32),
	F(IB_PC_ERR_PHYSRCV_F, UP_TO_32),
	F(IB_PC_ERR_SWITCH_REL_F, UP_TO_32),
	F(IB_PC_XMT_DISCARDS_F, UP_TO_32),
	F(IB_PC_ERR_XMTCONSTR_F, UP_TO_32),
	F(IB_PC_ERR_RCVCONSTR_F, UP_TO_32),
	F(IB_PC_COUNTER_SELECT2_F, UP_TO_32),
	F(IB_PC_ERR_LOCALINTEG_F, UP_TO_32),
	F(IB_PC_ERR_EXCESS_OVR_F, UP_TO_32),
	F(IB_PC_VL15_DROPPED_F, UP_TO_32),
	F(IB_PC_XMT_BYTES_F, UP_TO_32),
	F(IB_PC_RCV_BYTES_F, UP_TO_32),
	F(IB_PC_XMT_PKTS_F, UP_TO_32),
	F(IB_PC_RCV_PKTS_F, UP_TO_32),
	F(IB_PC_XMT_WAIT_F, UP_TO_32),
	F(IB_PC_QP1_DROP_F, UP_TO_32),
};

static const struct field portcountersext[] = {
	F(IB_PC_EXT_PORT_SELECT_F, UP_TO_32),
	F(IB_PC_EXT_COUNTER_SELECT_F, UP_TO_32),
	F(IB_PC_EXT_XMT_BYTES_F, U64),
	F(IB_PC_EXT_RCV_BYTES_F, U64),
	F(IB_PC_EXT_XMT_PKTS_F, U64),
	F(IB_PC_EXT_RCV_PKTS_F, U64),
	F(IB_PC_EXT_XMT_UPKTS_F, U64),
	F(IB_PC_EXT_RCV_UPKTS_F, U64),
	F(IB_PC_EXT_XMT_MPKTS_F, U64),
	F(IB_PC_EXT_RCV_MPKTS_F, U64),
	F(IB_PC_EXT_COUNTER_SELECT2_F, UP_TO_32),
	F(IB_PC_EXT_ERR_SYM_F, U64),
	F(IB_PC_EXT_LINK_RECOVERS_F, U64),
	F(IB_PC_EXT_LINK_DOWNED_F, U64),
	F(IB_PC_EXT_ERR_RCV_F, U64),
	F(IB_PC_EXT_ERR_PHYSRCV_F, U64),
	F(IB_PC_EXT_ERR_SWITCH_REL_F, U64),
	F(IB_PC_EXT_XMT_DISCARDS_F, U64),
	F(IB_PC_EXT_ERR_XMTCONSTR_F, U64),
	F(IB_PC_EXT_ERR_RCVCONSTR_F, U64),
	F(IB_PC_EXT_ERR_LOCALINTEG_F, U64),
	F(IB_PC_EXT_ERR_EXCESS_OVR_F, U64),
	F(IB_PC_EXT_VL15_DROPPED_F, U64),
	F(IB_PC_EXT_XMT_WAIT_F, U64),
	F(IB_PC_EXT_QP1_DROP_F, U64),
};

static const struct field portrcverrordetails[] = {
	F(IB_PC_PORT_SELECT_F, UP_TO_32),
	F(IB_PC_COUNTER_SELECT_F, UP_TO_32),
	F(IB_PC_RCV_LOCAL_PHY_ERR_F, UP_TO_32),
	F(IB_PC_RCV_MALFORMED_PKT_ERR_F, UP_TO_32),
	F(IB_PC_RCV_BUF_OVR_ERR_F, UP_TO_32),
	F(IB_PC_RCV_DLID_MAP_ERR_F, UP_TO_32),
	F(IB_PC_RCV_VL_MAP_ERR_F, UP_TO_32),
	F(IB_PC_RCV_LOOPING_ERR_F, UP_TO_32),
};

static const struct field portxmitdiscarddetails[] = {
	F(IB_PC_PORT_SELECT_F, UP_TO_32),
	F(IB_PC_COUNTER_SELECT_F, UP_TO_32),
	F(IB_PC_XMT_INACT_DISC_F, UP_TO_32),
	F(IB_PC_XMT_NEIGH_MTU_DISC_F, UP_TO_32),
	F(IB_PC_XMT_SW_LIFE_DISC_F, UP_TO_32),
	F(IB_PC_XMT_SW_HOL_DISC_F, UP_TO_32),
};

static const struct attribute {
	const char *name;
	unsigned size;
	const struct field *fields;
	unsigned count;
} attributes[] = {
#define A(name, size) { #name, size, name, sizeof name / sizeof name[0] }
	A(mad, 256),
	A(samad, 256),
	A(nodedesc, 64),
	A(nodeinfo, 64),
	A(switchinfo, 64),
	A(guidinfo, 64),
	A(portinfo, 64),
	A(slvl, 64),
	A(vlarb, 64),
	A(linearforwardingtable, 64),
	A(multicastforwardingtable, 64),
	A(sminfo, 64),
	A(notice, 64),
	A(classportinfo, 128),
	A(portcounters, 64),
	A(portcountersext, 192),
	A(portrcverrordetails, 64),
	A(portxmitdiscarddetails, 64),
};

#define ATTRIBUTES (sizeof attributes / sizeof attributes[0])

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/* Returns the number of bytes, or -1. */
static int from_hex(const char *text, uint8_t *bytes, size_t room)
{
	size_t i, length = strlen(text);

	if (length % 2 || length / 2 > room)
		return -1;
	for (i = 0; i < length / 2; i++) {
		int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);

		if (high < 0 || low < 0)
			return -1;
		bytes[i] = (uint8_t)(high << 4 | low);
	}
	return (int)i;
}

static void print_hex(const uint8_t *bytes, size_t length)
{
	while (length--)
		printf("%02x", *bytes++);
}

static const struct attribute *find_attribute(const char *name)
{
	size_t i;

	for (i = 0; name && i < ATTRIBUTES; i++)
		if (!strcmp(attributes[i].name, name))
			return &attributes[i];
	printf("error: no attribute \"%s\"; L lists them\n", name ? name : "");
	return NULL;
}

static void decode(void)
{
	const struct attribute *attribute = find_attribute(strtok(NULL, " \n"));
	const char *hex = strtok(NULL, " \n");
	uint8_t data[512] = { 0 };
	unsigned i;

	if (!attribute)
		return;
	if (!hex || from_hex(hex, data, attribute->size) < 0) {
		printf("error: D %s wants at most %u bytes in hex\n", attribute->name, attribute->size);
		return;
	}
	for (i = 0; i < attribute->count; i++) {
		const struct field *field = &attribute->fields[i];
		union {
			uint32_t u32;
			uint64_t u64;
			uint8_t bytes[256];
		} value;

		memset(&value, 0, sizeof value);
		mad_decode_field(data, field->id, &value);
		printf("%s %s=", field->name, mad_field_name(field->id));
		if (field->kind == UP_TO_32) {
			printf("0x%x", value.u32);
		} else if (field->kind == U64) {
			printf("0x%llx", (unsigned long long)value.u64);
		} else {
			print_hex(value.bytes, field->kind);
		}
		putchar('\n');
	}
	putchar('\n');
}

/* Returns 0, or -1 after printing an error. */
static int set(const struct attribute *attribute, uint8_t *data, char *assignment)
{
	char *text = strchr(assignment, '=');
	uint8_t bytes[256] = { 0 };
	unsigned long long number;
	uint32_t narrow;
	uint64_t wide;
	unsigned i;
	char *end;

	if (!text) {
		printf("error: \"%s\" is not FIELD=VALUE\n", assignment);
		return -1;
	}
	*text++ = 0;
	for (i = 0; i < attribute->count; i++) {
		const struct field *field = &attribute->fields[i];

		if (strcmp(field->name, assignment) && strcmp(mad_field_name(field->id), assignment))
			continue;
		if (field->kind != UP_TO_32 && field->kind != U64) {
			if (from_hex(text, bytes, field->kind) != (int)field->kind) {
				printf("error: %s wants %u bytes in hex\n", assignment, field->kind);
				return -1;
			}
			mad_encode_field(data, field->id, bytes);
			return 0;
		}
		errno = 0;
		number = strtoull(text, &end, 0);
		if (errno || *end || !*text || (field->kind == UP_TO_32 && number > UINT32_MAX)) {
			printf("error: %s: \"%s\" is not a number of %d bits\n", assignment, text,
			       field->kind == U64 ? 64 : 32);
			return -1;
		}
		narrow = (uint32_t)number;
		wide = number;
		mad_encode_field(data, field->id, field->kind == U64 ? (void *)&wide : (void *)&narrow);
		return 0;
	}
	printf("error: %s has no field \"%s\"\n", attribute->name, assignment);
	return -1;
}

static void encode(void)
{
	const struct attribute *attribute = find_attribute(strtok(NULL, " \n"));
	uint8_t data[512] = { 0 };
	char *assignment;

	if (!attribute)
		return;
	while ((assignment = strtok(NULL, " \n"))) {
		if (!strncmp(assignment, "base=", 5)) {
			if (from_hex(assignment + 5, data, attribute->size) < 0) {
				printf("error: base wants at most %u bytes in hex\n", attribute->size);
				return;
			}
		} else if (set(attribute, data, assignment)) {
			return;
		}
	}
	print_hex(data, attribute->size);
	putchar('\n');
}

static void list(void)
{
	size_t i;

	for (i = 0; i < ATTRIBUTES; i++)
		printf("%s %u\n", attributes[i].name, attributes[i].size);
	putchar('\n');
}

int main(void)
{
	static char line[65536];

	while (fgets(line, sizeof line, stdin)) {
		const char *command = strtok(line, " \n");

		if (!command)
			continue;
		if (!strcmp(command, "D"))
			decode();
		else if (!strcmp(command, "E"))
			encode();
		else if (!strcmp(command, "L"))
			list();
		else
			printf("error: no command \"%s\": D, E or L\n", command);
		fflush(stdout);
	}
	return 0;
}
